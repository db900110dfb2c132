"""The native CPU kernels: C++ sources in `src`, and `library`, the binding to the shared library built from them."""
