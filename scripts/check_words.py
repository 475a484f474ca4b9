#!/usr/bin/env python3
"""Checks that names use the field's words: those that this project once made up must not come back.

    python3 scripts/check_words.py          exit code 1 and one line per word found, with what to say instead
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pattern of a whole word: what to say.
INSTEAD = {
    r"thin_\w+|has_thin|Thin(Places|Tile|Shape|Convolution)\w*": "few_channels, ConvTiling, ...",
    r"Bend|has_bend": "LeakyRelu, is_leaky_relu",
    r"\w*Shelf|BatchRing|BatchRoom": "PinnedPool, BatchPool, BatchLayout",
    r"BlockEnd|block_end": "ResidualTail, residual_tail",
    r"once_only": "no_double_backward",
    r"dy_parts|GradientParts": "unsummed_grads, UnsummedGrads",
    r"derivable_from_output": "grad_from_output",
    r"never_falls": "is_monotonic",
    r"inverse_deviation": "inv_std",
    r"\w*PlanTable|ConvolutionPlans|ChainPlans|Conv2dPlans": "AutotuneTable, ConvAlgorithms, ...",
    r"\w*Product(Request|Plans|Operands|Epilogue|Algorithm)": "Gemm...",
    r"(?!WebPPicture)\w*[Pp]ictures?\w*": "image",
    r"\w*ConvolutionChain\w*|convolution_chains?|ChainLink|chain_graph|bind_chain": "FusedConvNorm, conv_norm",
    r"\w*BatchNormPairs?|batch_norm_pairs?|PairedColumns": "FusedAddNorms, add_batch_norms",
    r"\w*PooledBatchNorms?|pooled_batch_norms?|PooledNorm|PoolWinners": "FusedNormPool, PoolArgmax",
    r"\w+_is_joint|joins_batch_norms|prefers_joined": "..._is_fused",
    r"launch_early|early_launch|kernels_wait|LaunchPlace|WHISKER_NO_EARLY_LAUNCH": "launch_pdl, pdl.cuh, ...",
    r"pool2d_mark_bytes|visit_mark|at_winner|for_each_place|narrow_marks|pool2d_places": "argmax, RunningMax, PoolShape, ...",
    r"(load|store)_words|Unopened|load_unopened|open_pack|device_code/words": "packed.cuh, Packed, PackBytes, ...",
    r"[Mm]asked_?[Rr]ecurrent|PieceWay|copy_pieces|find_places|add_places|place_results": "VariableLengthCudnn, batched_copy, ...",
    r"RecurrentTrial|recurrent_trial|multiply_share|weight_place|share_bytes": "RecurrentBenchmark, PartialSums, ...",
    r"(float|int64_t|Gemm|CublasLtGemm)& product|product_desc|Kind::product": "gemm",
    r"ColumnSums|ColumnLaunch|column_launch|sum_columns|column_threads|RowPlace|for_rows_upwards|PairedColumnGradients|summed_statistics": "ChannelSums, ChannelLayout, two_channel_sums, RowPosition, ...",
    r"[Pp]adding_?[Tt]rial|ConvAlgorithms::Separately|separate_name|conv2d_direct\.h|ConvAlgorithms::joins": "PaddedConvolution, Unfused, ...",
    r"most_fetched|autotune/noise|memory/(staging|fetch)": "Uploader, stopwatch.h, ...",
    r"Arrangement|Arranged(Input|Output)|(norm_|common_)arrangement(_of)?|arrangement_of|bf16/widened": "ImageLayout, LayoutInput, blocked_layout, bf16_via_f32.h, ...",
    r"FaultPlace|fault_places|places_of|map_piece": "FaultSource, ...",
    r"(Row|Unit|Weights)Share": "RowSplit, UnitSplit, WeightsSplit",
    r"passed[ _]over": "skipped",
    r"(count_)?unread_formats|foreign_format|ForeignFormat": "unsupported_formats, detect_unsupported",
    r"DecodeTrial|decode_trial|TrialOptions": "DecodeBenchmark",
    r"makes?_room_?|room_(for|on|batch_|height_|width_)|room_": "reserve_memory, free_bytes, evict",
    r"held_back|hold_back": "validation_split, choose_validation",
}
FOLDERS = ("apps", "bench", "cmake", "configs", "core", "data", "docs", "layers", "optim", "scripts", "tests", "train")
# What earlier versions wrote and is still read, and a fixture's seed.
OLD_NAMES = ("train/config/config_read.cpp", "train/checkpoint/train_state.cpp", "tests/train/config/config_test.cpp",
             "tests/layers/torchvision_test.cpp", "scripts/make_torchvision_fixtures.py")
SKIPPED = ("bench/results/", "docs/notes/", "tests/fuzz/corpus/", "tests/golden/", "tests/golden_sequences/",
           "CHANGELOG.md", "scripts/check_words.py") + OLD_NAMES


def main():
    files = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    files += [path.name for path in sorted(ROOT.iterdir()) if path.is_file()]
    patterns = [(re.compile(rf"\b({words})\b"), say) for words, say in INSTEAD.items()]
    found = 0
    for name in files:
        path = ROOT / name
        if name.startswith(SKIPPED) or not path.is_file():
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for pattern, say in patterns:
                for match in pattern.finditer(line):
                    print(f"{name}:{number}: '{match.group()}': say {say}")
                    found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
