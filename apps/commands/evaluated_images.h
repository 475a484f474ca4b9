// What `whisker evaluate` writes about each image: a CSV file of all, and a page of the worst.
#pragma once

#include "data/images/image_folder.h"
#include "train/model/network.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct EvaluatedImage {
  std::string path;
  int64_t label = 0;
  int64_t predicted = 0;
  double loss = 0;                   ///< -log of the label's probability
  std::vector<float> probabilities;  ///< (classes)
};

/// Of one row of probabilities.
EvaluatedImage evaluated_image(std::string path, int64_t label, std::vector<float> probabilities);

/// Columns path, label, predicted, loss, and "probability CLASS" of each class.
std::string predictions_csv(const std::vector<EvaluatedImage>& images,
                            const std::vector<std::string>& classes);

/// One HTML file without scripts and without references to others: the `count` images of the
/// largest loss and the pairs of classes most often mistaken for each other, as the network sees
/// them and with the class-activation maps of the predicted class.
std::string worst_page(const Network& network, std::vector<EvaluatedImage> images, size_t count,
                       const std::string& weights);

}  // namespace whisker
