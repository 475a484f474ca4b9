// Class names of weights trained on ImageNet, which such files lack.
#pragma once

#include <string>
#include <vector>

namespace whisker {

/// 1,000 names in the order of the outputs.
std::vector<std::string> imagenet_classes();

}  // namespace whisker
