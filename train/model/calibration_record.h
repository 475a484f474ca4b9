// The temperature that `whisker evaluate --calibrate` fitted to a network's outputs, and to which
// data: metadata `calibration` of a weights file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whisker {

inline constexpr const char* calibration_key = "calibration";

struct CalibrationRecord {
  double temperature = 1;               ///< logits are divided by it before they are probabilities
  std::vector<std::string> data = {};   ///< names of files and folders, without where they lie
  int64_t examples = 0;                 ///< that it was fitted to
  std::vector<uint64_t> contents = {};  ///< content_sample() of them

  std::string json() const;
  /// Throws checkpoint, naming `file`, for text that json() did not write.
  static CalibrationRecord from_json(const std::string& text, const std::string& file);
  /// "1.4217, fitted to 2,000 examples of val".
  std::string text() const;
  /// Which fraction of the examples with these hashes of contents it was fitted to: exact of up to
  /// 1,024 fitted examples, else estimated from their sample.
  double fraction_fitted(std::span<const uint64_t> of) const;
};

inline constexpr double least_temperature = 0.01, most_temperature = 100;

/// The 1,024 smallest distinct hashes but 0, which is of no content: a sample by which two sets are
/// compared (Broder 1997, On the Resemblance and Containment of Documents, bottom-k sketches).
std::vector<uint64_t> content_sample(std::span<const uint64_t> contents);

}  // namespace whisker
