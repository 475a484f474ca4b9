// Where the time goes that starting a GPU takes.
#pragma once

namespace whisker {

/// Seconds that starting took, part by part; 0 for what was not needed. Parts may overlap with each
/// other and with the program's own work: see train/device_start.h.
struct CudaStartTimes {
  double driver = 0;     ///< cuInit
  double library = 0;    ///< opening libwhisker_cuda.so
  double context = 0;    ///< the GPU's context, streams, first memory
  double cublas_lt = 0;  ///< opening cuBLASLt, its handle
  double cudnn = 0;      ///< opening cuDNN and parts of it, its handle
  double plans = 0;      ///< making the first plan of each convolution and product, without these
};

}  // namespace whisker
