// The scan.
#include "data/tools/image_scan.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/parallel.h"

#include <mutex>

namespace whisker {

void scan_images(const ImageFolder& folder, const ScanOptions& options,
                 const std::function<void(const ScannedImage&)>& visit) {
  constexpr int64_t report_every = 64;
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(folder.size(), options.workers, [&](int64_t index) {
    ScannedImage scanned{.index = index, .bytes = {}, .image = nullptr, .error = {}};
    std::string content;
    Decoded decoded;
    try {
      content = read_file(folder.file(index), max_image_bytes, ErrorKind::data);
      scanned.bytes = bytes_of(content);
      decode(scanned.bytes, {.max_pixels = options.max_pixels, .rules = options.rules}, decoded);
      scanned.image = &decoded.image;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      scanned.error = error.what();
    }
    visit(scanned);
    if (!options.progress) return;
    const std::lock_guard lock(mutex);
    if (++done % report_every == 0 || done == folder.size()) options.progress(done, folder.size());
  });
}

}  // namespace whisker
