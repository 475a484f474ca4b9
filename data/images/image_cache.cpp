// The cache in memory; the one on disk is disk_cache.cpp.
#include "data/images/image_cache.h"

#include <mutex>
#include <vector>

namespace whisker {
namespace {

class MemoryCache final : public ImageCache {
 public:
  MemoryCache(int64_t size, uint64_t max_bytes)
      : images_(static_cast<size_t>(size)), free_bytes_(max_bytes) {}

  bool get(int64_t index, Image& out) const override {
    std::shared_ptr<const Image> image;
    {
      const std::lock_guard lock(mutex_);
      image = images_[static_cast<size_t>(index)];
    }
    if (image) out = *image;
    return image != nullptr;
  }

  void put(int64_t index, const Image& image) override {
    {
      const std::lock_guard lock(mutex_);
      if (image.rgb.size() > free_bytes_ || images_[static_cast<size_t>(index)]) return;
      free_bytes_ -= image.rgb.size();
    }
    auto copy = std::make_shared<const Image>(image);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Image>& place = images_[static_cast<size_t>(index)];
    if (place) {  // another worker was faster
      free_bytes_ += copy->rgb.size();
    } else {
      place = std::move(copy);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Image>> images_;
  uint64_t free_bytes_;
};

}  // namespace

std::unique_ptr<ImageCache> memory_cache(int64_t size, uint64_t max_bytes) {
  return std::make_unique<MemoryCache>(size, max_bytes);
}

}  // namespace whisker
