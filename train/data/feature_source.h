// `features: cached`: batches of what a network's first, frozen layers make of each image,
// computed once and kept in host memory.
//
// Note [Cached features] The layers see each image as validation does: no augmentation, and no
// dropout before the first layer that is trained. Later epochs only draw rows in their order.
#pragma once

#include "data/batch_source.h"
#include "data/sampler.h"
#include "train/model/network.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace whisker {

struct FeatureOptions {
  size_t first_layer = 0;  ///< of the network's list, that a batch is for
  int64_t batch_size = 0;
  bool drop_last = false;
  int64_t epochs = 0;      ///< that features serve; 0: all
  int64_t most_bytes = 0;  ///< of all features
  int64_t images = 0;      ///< number of them
};

/// The first layer of the network's list that is not the same for an image in every epoch: the
/// first trained one, or one that draws (dropout, drop_path) between it and the frozen ones. Throws
/// usage when it is the network's first.
size_t first_trained_layer(const Network& network);

/// Features of the images of `plain`, which gives each of them once, unaugmented; in the orders of
/// `sampler`, or (null) in that of `plain`. After options.epochs the batches are those of `after`,
/// or (null) of `plain`. Throws usage from next() when the features do not fit.
std::unique_ptr<BatchSource> feature_source(const Network& network,
                                            std::unique_ptr<BatchSource> plain,
                                            std::unique_ptr<BatchSource> after,
                                            std::unique_ptr<Sampler> sampler,
                                            const FeatureOptions& options);

}  // namespace whisker
