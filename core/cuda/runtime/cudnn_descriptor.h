// Ownership of cuDNN's backend descriptors, and errors that name the call. Everything else about
// the graph API is in core/cuda/cudnn/cudnn_graph.h.
#pragma once

#include "core/error.h"

#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cudnn_graph.h>

namespace whisker::cuda::cudnn {

/// Throws device, with `call` and cuDNN's message, unless `status` is a success; Unsupported where
/// it says so.
void check(cudnnStatus_t status, std::string_view call);
/// False when `status` says that cuDNN does not support what was asked; as check() otherwise.
bool supported(cudnnStatus_t status, std::string_view call);

/// The attribute type that goes with a C++ type.
template <class T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnReduceTensorOp_t>) return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

/// One backend descriptor: created, filled with attributes, finalized, then only read.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor();

  cudnnBackendDescriptor_t raw() const { return raw_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_raw(name, attribute_type<T>(), 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_);
  }
  template <class T>
  void set_array(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set_raw(name, attribute_type<T>(), static_cast<int64_t>(values.size()), values.data());
  }
  void set_array(cudnnBackendAttributeName_t name, std::span<const Descriptor* const> values);
  void set_pointers(cudnnBackendAttributeName_t name, std::span<void* const> values) {
    set_raw(name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(values.size()), values.data());
  }

  /// Throws device when cuDNN refuses what was set.
  void finalize(std::string_view what);
  /// cuDNN's verdict, for what it may rightly not support.
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(raw_); }

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get_raw(name, attribute_type<T>(), 1, &value);
    return value;
  }
  /// At most `most` values.
  template <class T>
  std::vector<T> get_array(cudnnBackendAttributeName_t name, size_t most) const {
    std::vector<T> values(most);
    const int64_t count =
        get_raw(name, attribute_type<T>(), static_cast<int64_t>(most), values.data());
    values.resize(static_cast<size_t>(count));
    return values;
  }
  /// At most `most` descriptors of `type`, which cuDNN fills.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type, size_t most) const;

 private:
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
               const void* values);
  int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  void* values) const;

  cudnnBackendDescriptor_t raw_ = nullptr;
};

}  // namespace whisker::cuda::cudnn
