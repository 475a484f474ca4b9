// In place of graph.cpp where the program is built without ONNX: the constructor says so.
#include "core/error.h"
#include "train/onnx/graph.h"

namespace whisker {

struct OnnxGraph::Parts {};

OnnxGraph::OnnxGraph(const std::string&, int64_t) {
  fail(ErrorKind::usage,
       "export: this program was built without ONNX. Install libonnx-dev and libprotobuf-dev "
       "(scripts/install_packages.sh), configure with WHISKER_ONNX=ON and build again.");
}
OnnxGraph::OnnxGraph(OnnxGraph&&) noexcept = default;
OnnxGraph::~OnnxGraph() = default;
void OnnxGraph::input(const std::string&, OnnxType, const std::vector<OnnxExtent>&) {}
void OnnxGraph::output(const std::string&, OnnxType, const std::vector<OnnxExtent>&) {}
std::string OnnxGraph::constant(const std::string&, std::span<const int64_t>,
                                std::span<const float>) {
  return {};
}
std::string OnnxGraph::constant(std::initializer_list<float>) {
  return {};
}
std::string OnnxGraph::integers(std::span<const int64_t>) {
  return {};
}
std::string OnnxGraph::node(const char*, const std::vector<std::string>&,
                            const std::vector<OnnxAttribute>&, const std::string&) {
  return {};
}
std::vector<std::string> OnnxGraph::nodes(const char*, const std::vector<std::string>&,
                                          const std::vector<OnnxAttribute>&, size_t outputs) {
  return std::vector<std::string>(outputs);
}
void OnnxGraph::metadata(const std::string&, const std::string&) {}
std::string OnnxGraph::bytes() const {
  return {};
}

}  // namespace whisker
