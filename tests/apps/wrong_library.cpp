// Stands in front of the compute libraries (LD_PRELOAD) and leaves their results unwritten, as a
// broken processor or library might: what `whisker devices --check` is there to find.
extern "C" {

int dnnl_primitive_execute() {
  return 0;  // dnnl_success
}

void cblas_sgemm() {}
}
