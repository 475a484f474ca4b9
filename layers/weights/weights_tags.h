// Which weights of a network a file holds, by what stands behind the network's name in the file's:
// timm's tag (".a3_in1k"), or the hash of timm's older files and torchvision's ("-11ad3fa6"). Some
// expect images otherwise than the network's preset; configs/presets/weights_tags.yaml.
#pragma once

#include "core/io/yaml.h"

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct WeightsTag {
  std::string name = {};     ///< "a3_in1k"; of torchvision's the hash; "" where nothing is said
  std::string library = {};  ///< "timm" or "torchvision", whose weights have such a name; else ""
  bool known = false;        ///< the table has it
  YamlNode data = {};        ///< what of the data section is not as in the preset; else null
  std::string unread = {};   ///< what stands behind, or instead: "_best", a word of the user's own

  /// `data` as assignments: "image_size=160", "mean=[0.5, 0.5, 0.5]".
  std::vector<std::string> settings() const;
};

/// The tag in `rest`, what follows `network`'s name, in lower case: ".a3_in1k", "_a3_0-40c531c8".
WeightsTag find_weights_tag(std::string_view network, std::string_view rest);

/// `text` with the present name of weights in place of timm's name of before tags that it begins
/// with: "tf_efficientnet_b0.ap_in1k" of "tf_efficientnet_b0_ap".
std::string with_present_name(std::string_view text);

/// Whether `text` is a hyphen and eight digits of a hash, as torchvision and timm end files' names.
bool is_hash_suffix(std::string_view text);

}  // namespace whisker
