// The table of one instruction set.
#include "isa_functions.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

void fill(Kernels &table) {
#if defined(GOLEM_ISA_AVX512)
  table.name = "avx512-vnni";
#elif defined(GOLEM_ISA_AVX2)
  table.name = "avx2";
#elif defined(GOLEM_ISA_NEON)
  table.name = "neon";
#else
  table.name = "generic";
#endif
  fill_floats(table);
  for (int type = 0; type < kTypes; type++) {
    if (table.product[type] != nullptr) continue;
    table.product[type] = quantized_product(type);
    table.product_rows[type] = kQuantizedRows;
    table.layout[type] = layout_of(type);
  }
  table.quantize = quantize;
  table.store_half = store_half_row;
  table.rms_norm = rms_norm;
  table.rotate = rotate;
  table.convolve = convolve;
  table.delta = delta;
  table.layer_norm = layer_norm;
  table.l2_norm = l2_norm;
  table.hadamard = hadamard;
  table.attend_queries = attend_queries;
  table.attend_scores = attend_scores;
  table.attend_weights = attend_weights;
  table.attend_values = attend_values;
  fill_text(table);
  table.convolve_image = convolve_image;
  table.image_conv_floats = image_conv_floats;
  table.image_tile_outputs = kFloatRows;
  table.block_maxima = block_maxima;
  table.collect = collect;
  table.gate_silu = gate_silu;
  table.gate_gelu = gate_gelu;
  table.gate_gelu_erf = gate_gelu_erf;
  table.gate_sigmoid = gate_sigmoid;
  table.gate_gelu_tanh = gate_gelu_tanh;
  table.gate_relu = gate_relu;
  table.gate_elu = gate_elu;
  table.add = add;
  table.mul = mul;
  table.scale = scale;
  table.softcap = softcap;
  table.mix = mix;
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
