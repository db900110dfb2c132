#pragma once
#include "kernels.h"

namespace golem {

// The portable product of a quantized type; nullptr for other types.
ProductFn portable_product(int type);

}  // namespace golem
