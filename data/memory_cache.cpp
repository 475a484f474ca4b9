// The cache in memory.
#include "data/picture_cache.h"

#include <mutex>
#include <vector>

namespace whisker {
namespace {

class MemoryCache final : public PictureCache {
 public:
  MemoryCache(int64_t size, uint64_t max_bytes)
      : pictures_(static_cast<size_t>(size)), room_(max_bytes) {}

  bool get(int64_t index, Picture& out) const override {
    std::shared_ptr<const Picture> picture;
    {
      const std::lock_guard lock(mutex_);
      picture = pictures_[static_cast<size_t>(index)];
    }
    if (picture) out = *picture;
    return picture != nullptr;
  }

  void put(int64_t index, const Picture& picture) override {
    {
      const std::lock_guard lock(mutex_);
      if (picture.rgb.size() > room_ || pictures_[static_cast<size_t>(index)]) return;
      room_ -= picture.rgb.size();
    }
    auto copy = std::make_shared<const Picture>(picture);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Picture>& place = pictures_[static_cast<size_t>(index)];
    if (place) {  // another worker was faster
      room_ += copy->rgb.size();
    } else {
      place = std::move(copy);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Picture>> pictures_;
  uint64_t room_;  // bytes
};

}  // namespace

std::unique_ptr<PictureCache> memory_cache(int64_t size, uint64_t max_bytes) {
  return std::make_unique<MemoryCache>(size, max_bytes);
}

}  // namespace whisker
