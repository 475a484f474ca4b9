// The scan.
#include "data/picture_scan.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/parallel.h"

#include <mutex>

namespace whisker {

void scan_pictures(const ImageFolder& folder, const ScanOptions& options,
                   const std::function<void(const ScannedPicture&)>& visit) {
  constexpr int64_t report_every = 64;
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(folder.size(), options.workers, [&](int64_t index) {
    ScannedPicture scanned{.index = index, .bytes = {}, .picture = nullptr, .error = {}};
    std::string content;
    Picture picture;
    try {
      content = read_file(folder.file(index), max_picture_bytes, ErrorKind::data);
      scanned.bytes = bytes_of(content);
      picture = decode(scanned.bytes, options.max_pixels);
      scanned.picture = &picture;
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
