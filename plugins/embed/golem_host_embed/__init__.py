"""The embed plugin: text embeddings and reranking with encoders of the BERT family."""
