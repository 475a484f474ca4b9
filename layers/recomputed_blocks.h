// Blocks of a network whose forward pass backward runs again, in place of keeping what they
// compute (core/autograd/recompute.h). A block is a container in a list of layers: sequential,
// residual, concat or multiply.
#pragma once

#include "layers/module.h"

#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Whether a layer in a list is a block. Squeeze-and-excitation is none: it may be part of the
/// batch_norm before it.
bool is_block(const Module& layer);

/// Marks each outermost block whose parameters are all selected by one of `patterns` (as freeze()
/// takes them); without patterns, each outermost block. Throws usage for a pattern that selects no
/// block. Before the first forward pass.
void recompute_blocks(Module& net, std::span<const std::string> patterns = {});

/// Names of the blocks that are marked, those inside others left out; the kind of one that has no
/// name.
std::vector<std::string> recomputed_blocks(const Module& net);
/// "recomputed in backward: 16 blocks, layer1.0, layer1.1 ... layer4.2"; "" for none.
std::string recomputed_text(std::span<const std::string> names);

}  // namespace whisker
