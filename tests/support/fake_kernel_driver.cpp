// Stands in for libcuda.so.1 of a machine without a GPU, and takes any kernel: cuDNN compiles what
// it would run on a described GPU, and finds that it loads.
extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuInit(unsigned) {
  return 100;  // CUDA_ERROR_NO_DEVICE
}

static char handle;
static int give_handle(void** to) {
  *to = &handle;
  return 0;
}
int cuLibraryLoadData(void** library) {
  return give_handle(library);
}
int cuLibraryGetKernel(void** kernel) {
  return give_handle(kernel);
}
int cuKernelGetFunction(void** function) {
  return give_handle(function);
}

// The others that cuDNN looks for when it loads a driver, of which it calls few.
#define WHISKER_SUCCEEDS(name) \
  int name() {                 \
    return 0;                  \
  }
WHISKER_SUCCEEDS(cuCtxGetCurrent)
WHISKER_SUCCEEDS(cuCtxGetLimit)
WHISKER_SUCCEEDS(cuCtxPopCurrent)
WHISKER_SUCCEEDS(cuCtxPushCurrent)
WHISKER_SUCCEEDS(cuDeviceGet)
WHISKER_SUCCEEDS(cuDeviceGetCount)
WHISKER_SUCCEEDS(cuFuncGetAttribute)
WHISKER_SUCCEEDS(cuFuncSetAttribute)
WHISKER_SUCCEEDS(cuGetErrorName)
WHISKER_SUCCEEDS(cuGetErrorString)
WHISKER_SUCCEEDS(cuKernelGetAttribute)
WHISKER_SUCCEEDS(cuKernelSetAttribute)
WHISKER_SUCCEEDS(cuLaunchCooperativeKernel)
WHISKER_SUCCEEDS(cuLaunchKernel)
WHISKER_SUCCEEDS(cuLaunchKernelEx)
WHISKER_SUCCEEDS(cuLibraryGetModule)
WHISKER_SUCCEEDS(cuLibraryLoadFromFile)
WHISKER_SUCCEEDS(cuLibraryUnload)
WHISKER_SUCCEEDS(cuLinkAddData)
WHISKER_SUCCEEDS(cuLinkComplete)
WHISKER_SUCCEEDS(cuLinkCreate)
WHISKER_SUCCEEDS(cuLinkDestroy)
WHISKER_SUCCEEDS(cuModuleGetFunction)
WHISKER_SUCCEEDS(cuModuleLoadData)
WHISKER_SUCCEEDS(cuModuleUnload)
WHISKER_SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
WHISKER_SUCCEEDS(cuStreamGetCtx)
#undef WHISKER_SUCCEEDS

}  // extern "C"
