// Copies of many pieces of memory at once: the parameters of recurrent layers into the one block
// that cuDNN reads, and gradients out of it.
#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// One piece, of whole 2-byte words.
struct Piece {
  char* outside = nullptr;
  char* inside = nullptr;
  int64_t bytes = 0;
};

enum class PieceWay { inwards, outwards };

/// Copies every piece from outside to inside, or back.
void copy_pieces(std::span<const Piece> pieces, PieceWay way, cudaStream_t stream);

}  // namespace whisker::cuda
