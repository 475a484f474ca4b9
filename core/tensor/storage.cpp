// Storage: lazily allocated memory, and the way out of a private layout.
#include "core/tensor/storage.h"

#include "core/backend/backend.h"

#include <utility>

namespace whisker {
namespace {

std::atomic<int64_t> live{0};
constinit thread_local MemoryCategory current_category = MemoryCategory::activations;

}  // namespace

int64_t live_storages() {
  return live.load();
}

std::string_view name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::activations:
      return "activations";
    case MemoryCategory::parameters:
      return "parameters";
    case MemoryCategory::gradients:
      return "gradients";
    case MemoryCategory::optimizer:
      return "optimizer";
    case MemoryCategory::input:
      return "input";
    case MemoryCategory::workspace:
      return "workspace";
  }
  return "?";
}

MemoryScope::MemoryScope(MemoryCategory category)
    : previous_(std::exchange(current_category, category)) {}
MemoryScope::~MemoryScope() {
  current_category = previous_;
}
MemoryCategory MemoryScope::current() {
  return current_category;
}

Storage::Storage(Device device, int64_t bytes)
    : device_(device), bytes_(bytes), category_(current_category) {
  live.fetch_add(1, std::memory_order_relaxed);
}

Storage::Storage(Device device, int64_t bytes, void* data, std::shared_ptr<const void> keeper,
                 const std::atomic<uint64_t>* epoch)
    : device_(device),
      bytes_(bytes),
      data_(data),
      owned_(false),
      category_(current_category),
      epoch_(epoch),
      keeper_(std::move(keeper)) {
  live.fetch_add(1, std::memory_order_relaxed);
}

Storage::~Storage() {
  if (owned_ && data_) backend_of(device_).deallocate(data_, bytes_, category_);
  live.fetch_sub(1, std::memory_order_relaxed);
}

void Storage::adopt(std::unique_ptr<PrivateForm> form) {
  if (owned_ && data_) {
    backend_of(device_).deallocate(data_, bytes_, category_);
    data_ = nullptr;
  }
  form_ = std::move(form);
}

void Storage::materialize() {
  if (!data_) data_ = backend_of(device_).allocate(bytes_, category_);
  if (form_) {
    form_->write_plain(data_);
    form_.reset();
  }
}

}  // namespace whisker
