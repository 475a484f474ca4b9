#include "core/cuda/runtime/cudnn_descriptor.h"

#include "core/backend/autotune_table.h"

#include <algorithm>
#include <array>

namespace whisker::cuda::cudnn {

void check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> details{};
  cudnnGetLastErrorString(details.data(), details.size());
  const std::string message =
      fmt::format("cuDNN: {}: {}{}{}", call, cudnnGetErrorString(status), details[0] ? ": " : "",
                  static_cast<const char*>(details.data()));
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) throw Unsupported(message);
  fail(ErrorKind::device, "{}", message);
}

bool supported(cudnnStatus_t status, std::string_view call) {
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check(status, call);
  return true;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &raw_),
        fmt::format("cudnnBackendCreateDescriptor({})", static_cast<int>(type)));
}

Descriptor::~Descriptor() {
  if (raw_) cudnnBackendDestroyDescriptor(raw_);
}

void Descriptor::set_array(cudnnBackendAttributeName_t name,
                           std::span<const Descriptor* const> values) {
  std::vector<cudnnBackendDescriptor_t> raw(values.size());
  std::transform(values.begin(), values.end(), raw.begin(),
                 [](const Descriptor* value) { return value->raw_; });
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data());
}

void Descriptor::finalize(std::string_view what) {
  check(cudnnBackendFinalize(raw_), fmt::format("cudnnBackendFinalize of {}", what));
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type,
                                                    size_t most) const {
  std::vector<Descriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (size_t i = 0; i < most; ++i) raw.push_back(descriptors.emplace_back(type).raw());
  const int64_t count =
      get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(most), raw.data());
  while (descriptors.size() > static_cast<size_t>(count)) descriptors.pop_back();
  return descriptors;
}

void Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void* values) {
  check(cudnnBackendSetAttribute(raw_, name, type, count, values),
        fmt::format("cudnnBackendSetAttribute({})", static_cast<int>(name)));
}

int64_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, void* values) const {
  int64_t filled = 0;
  check(cudnnBackendGetAttribute(raw_, name, type, count, &filled, values),
        fmt::format("cudnnBackendGetAttribute({})", static_cast<int>(name)));
  return std::min(filled, count);
}

}  // namespace whisker::cuda::cudnn
