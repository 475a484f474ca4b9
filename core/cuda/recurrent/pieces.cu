#include "core/cuda/device/elementwise.cuh"
#include "core/cuda/gpu/check.h"
#include "core/cuda/recurrent/pieces.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

// As many as a kernel's arguments hold with room to spare.
constexpr int most_pieces = 64;

struct Copies {
  const void* from[most_pieces];
  void* to[most_pieces];
  int64_t words[most_pieces];
};

// blockIdx.y is the piece; Word is what all of them consist of.
template <class Word>
__global__ void __launch_bounds__(block_threads) copy_pieces_kernel(Copies copies) {
  const auto* from = static_cast<const Word*>(copies.from[blockIdx.y]);
  auto* to = static_cast<Word*>(copies.to[blockIdx.y]);
  const int64_t words = copies.words[blockIdx.y];
  for (int64_t i = first_item(); i < words; i += item_step()) to[i] = from[i];
}

template <class Word>
void launch(std::span<const Piece> pieces, PieceWay way, cudaStream_t stream) {
  Copies copies{};
  int64_t longest = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    copies.from[i] = way == PieceWay::inwards ? piece.outside : piece.inside;
    copies.to[i] = way == PieceWay::inwards ? piece.inside : piece.outside;
    copies.words[i] = piece.bytes / static_cast<int64_t>(sizeof(Word));
    longest = std::max(longest, copies.words[i]);
  }
  const dim3 grid(std::min(grid_for(longest), 64u), static_cast<unsigned>(pieces.size()));
  copy_pieces_kernel<Word><<<grid, block_threads, 0, stream>>>(copies);
}

bool in_sixteens(std::span<const Piece> pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    const auto all = reinterpret_cast<uintptr_t>(piece.outside) |
                     reinterpret_cast<uintptr_t>(piece.inside) |
                     static_cast<uintptr_t>(piece.bytes);
    return all % 16 == 0;
  });
}

}  // namespace

void copy_pieces(std::span<const Piece> pieces, PieceWay way, cudaStream_t stream) {
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(pieces.size(), size_t{most_pieces}));
    if (in_sixteens(some)) {
      launch<uint4>(some, way, stream);
    } else {
      launch<uint16_t>(some, way, stream);
    }
    pieces = pieces.subspan(some.size());
  }
  check_launch("copying pieces");
}

}  // namespace whisker::cuda
