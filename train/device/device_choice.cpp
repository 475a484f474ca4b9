#include "train/device/device_choice.h"

#include "core/error.h"
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/cuda_usable.h"
#include "train/config/device_name.h"

namespace whisker {

DeviceChoice choose_device(const std::string& text) {
  if (const auto remedy = device_remedy(text)) {
    fail(ErrorKind::usage, "device: expected {}, got '{}'.{}{}", device_names, text,
         remedy->empty() ? "" : " ", *remedy);
  }
  if (text != "auto") {
    const Device device = Device::parse(text);
    backend_of(device);  // throws when this build or machine lacks it
    return {device};
  }
  if (!cuda_is_expected(cuda_facts())) return {cpu_device};
  constexpr Device gpu{DeviceKind::cuda, 0};
  const std::string why = why_no_cuda(gpu);
  if (why.empty()) return {gpu};
  return {cpu_device, fmt::format("device: auto is the CPU, as the GPU cannot be used: {}", why)};
}

std::string device_of_rank(const std::string& text, const RankGroup& ranks) {
  const std::vector<std::string> names = device_list(text);
  const int local = ranks.local_rank();
  if (names.size() > 1) {
    if (local < std::ssize(names)) return names[static_cast<size_t>(local)];
    fail(ErrorKind::usage, "device: '{}' names {} devices, but this machine has a rank {}.", text,
         names.size(), local);
  }
  if (ranks.world() == 1) return text;
  if (text.starts_with("cuda:")) {
    fail(ErrorKind::usage,
         "device: '{}' is one GPU for {} ranks. Use device=cuda, or a list of GPUs.", text,
         ranks.world());
  }
  const int gpus = text == "cuda" || text == "auto" ? cuda_device_count() : 0;
  if (gpus == 0) return text;
  if (local < gpus) return fmt::format("cuda:{}", local);
  fail(ErrorKind::device,
       "device: rank {} is number {} on its machine, which has {} GPU{}. Start one rank per GPU.",
       ranks.rank(), local + 1, gpus, gpus == 1 ? "" : "s");
}

}  // namespace whisker
