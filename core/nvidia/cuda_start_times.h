// How long starting a GPU takes, by part.
#pragma once

namespace whisker {

/// Seconds by part; 0 for what was not needed. Parts may overlap with each other and with other
/// work: see train/device/device_start.h.
struct CudaStartTimes {
  double driver = 0;     ///< cuInit
  double library = 0;    ///< opening libwhisker_cuda.so
  double context = 0;    ///< the GPU's context, streams, first memory
  double cublas_lt = 0;  ///< opening cuBLASLt, its handle
  double cudnn = 0;      ///< opening cuDNN and parts of it, its handle
  double plans = 0;      ///< preparing the first of each convolution and gemm, without the above
};

}  // namespace whisker
