// The only door to oneDNN, and the only place that knows version 2 from 3. See dnnl_api.cpp.
#pragma once

#include "core/cpu/gemm.h"

namespace whisker::cpu {

void dnnl_gemm(const Gemm& g);

}  // namespace whisker::cpu
