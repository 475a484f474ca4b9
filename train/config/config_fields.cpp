// Every key of the configuration: variable, range, meaning. Those of `data` are in data_fields.cpp.
#include "train/config/field_ranges.h"

namespace whisker {
namespace {

using fields::above_zero;
using fields::at_least;
using fields::below_one;
using fields::Names;
using fields::share;

constexpr std::string_view fill_names[] = {"constant", "nearest", "reflect", "wrap"};
constexpr std::string_view loss_names[] = {"auto", "cross_entropy", "binary_cross_entropy"};
constexpr std::string_view weighting_names[] = {"none", "balanced"};
constexpr std::string_view precision_names[] = {"auto", "f32", "bf16", "f16"};
constexpr std::string_view feature_names[] = {"computed", "cached"};
constexpr std::string_view memory_mode_names[] = {"growth", "preallocate"};
constexpr std::string_view metric_names[] = {"auto", "accuracy", "f1",       "mae",
                                             "rmse", "loss",     "f1_macro", "f1_class"};
constexpr std::string_view optimizer_names[] = {"sgd", "adam", "adamw", "rmsprop"};
constexpr std::string_view schedule_names[] = {"constant", "step",      "multi_step", "exponential",
                                               "cosine",   "one_cycle", "plateau"};

// A range as a list of two.
void range_field(FieldVisitor& v, const char* key, Range& range, const FieldInfo& info) {
  std::vector<double> ends = {range.low, range.high};
  v.field(key, ends, info);
  range = {ends[0], ends[1]};
}

// "true" mirrors half of the images.
void flip_field(FieldVisitor& v, const char* key, double& probability, const char* about) {
  bool flip = probability > 0;
  v.field(key, flip, {.about = about});
  probability = flip ? 0.5 : 0;
}

void augment_fields(FieldVisitor& v, AugmentConfig& c) {
  v.field("random_resized_crop", c.random_resized_crop,
          {.about = "crop a random part of the image and resize it"});
  range_field(v, "crop_scale", c.crop_scale,
              {.about = "area of that part, fraction of the image: from, to",
               .low = 0,
               .high = 1,
               .exclusive_low = true,
               .least = 2,
               .most = 2});
  range_field(v, "crop_ratio", c.crop_ratio,
              {.about = "width over height of that part: from, to",
               .low = 0,
               .exclusive_low = true,
               .least = 2,
               .most = 2});
  flip_field(v, "horizontal_flip", c.flip_horizontal, "mirror half of the images");
  flip_field(v, "vertical_flip", c.flip_vertical, "turn half of the images upside down");
  v.section("rand_augment", "torchvision's RandAugment", [&c](FieldVisitor& s) {
    s.field("num_ops", c.rand_augment_ops,
            {.about = "random operations per image, torchvision's default is 2; 0 is off",
             .low = 0,
             .high = 14});
    s.field("magnitude", c.rand_augment_magnitude,
            {.about = "their strength; without effect while num_ops is 0", .low = 0, .high = 30});
  });
  v.field("trivial_augment", c.trivial_augment,
          {.about = "torchvision's TrivialAugmentWide: one random operation of random strength"});
  v.field("rotation", c.rotation, {.about = "largest angle, degrees", .low = 0, .high = 180});
  v.field("shear", c.shear, {.about = "largest shear angle, degrees", .low = 0, .high = 89});
  v.field("zoom", c.zoom, below_one("scale between 1 - zoom and 1 + zoom"));
  v.field("shift_horizontal", c.shift_horizontal, share("largest shift, fraction of the width"));
  v.field("shift_vertical", c.shift_vertical, share("largest shift, fraction of the height"));
  v.field("fill_mode", EnumField(c.fill_mode, Names(fill_names)),
          {.about = "what moves in: fill_value, the edge, a mirror image, the other side"});
  v.field("fill_value", c.fill_value, {.about = "for fill_mode constant", .low = 0, .high = 255});
  v.field("brightness", c.brightness, share("factor between 1 - x and 1 + x"));
  v.field("contrast", c.contrast, share("factor between 1 - x and 1 + x"));
  v.field("saturation", c.saturation, share("factor between 1 - x and 1 + x"));
  v.field("hue", c.hue,
          {.about = "largest shift, fraction of the colour circle", .low = 0, .high = 0.5});
  v.field("erase", c.erase, share("probability of erasing a random rectangle"));
  v.field("mixup", c.mixup,
          {.about = "alpha of mixup's Beta distribution; 0 is off", .low = 0, .high = 100});
  v.field("cutmix", c.cutmix,
          {.about = "alpha of cutmix's Beta distribution; 0 is off", .low = 0, .high = 100});
}

void optimizer_fields(FieldVisitor& v, OptimizerOptions& c) {
  v.field("kind", EnumField(c.kind, Names(optimizer_names)),
          {.about = "update rule, see optimizers.md"});
  v.field("lr", c.learning_rate, above_zero("base learning rate"));
  v.field("momentum", c.momentum,
          below_one("sgd, rmsprop: fraction of the last update that is kept"));
  v.field("nesterov", c.nesterov, {.about = "sgd: Nesterov momentum"});
  v.field("beta1", c.beta1, below_one("adam, adamw: decay of the gradient average"));
  v.field("beta2", c.beta2, below_one("adam, adamw: decay of the squared average"));
  v.field("alpha", c.alpha, below_one("rmsprop: decay of the squared average"));
  v.field("centered", c.centered, {.about = "rmsprop: subtract the squared mean"});
  v.field("epsilon", c.epsilon,
          above_zero("adam, adamw, rmsprop: added to the root of the squared average"));
  v.field("weight_decay", c.weight_decay, at_least(0, "L2; decoupled for adamw"));
  v.field("decay_all", c.decay_all, {.about = "false: no decay on biases and normalisation"});
  v.field("layer_decay", c.layer_decay,
          {.about = "factor of the learning rate per block of layers before the last",
           .low = 0,
           .high = 1,
           .exclusive_low = true});
  v.field("clip_norm", c.clip_norm, at_least(0, "largest global gradient norm; 0 is off"));
  v.field("clip_value", c.clip_value, at_least(0, "largest gradient element; 0 is off"));
  v.list(
      "groups", "parameters with their own rate; the first matching pattern wins", c.groups.size(),
      [&c](size_t size) { c.groups.resize(size); },
      [&c](FieldVisitor& item, size_t i) {
        GroupRule& rule = c.groups[i];
        item.field("pattern", rule.pattern, {.about = "parameter names; * matches any text"});
        item.field("lr_factor", rule.learning_rate_factor, at_least(0, "times the learning rate"));
        double decay = rule.weight_decay.value_or(-1);
        item.field("weight_decay", decay,
                   at_least(-1, "replaces optimizer.weight_decay; -1 keeps it"));
        if (decay >= 0) rule.weight_decay = decay;
      });
}

void schedule_fields(FieldVisitor& v, ScheduleOptions& c) {
  v.field("kind", EnumField(c.kind, Names(schedule_names)),
          {.about = "shape over the run, see optimizers.md"});
  v.field("gamma", c.gamma,
          {.about = "factor of step, multi_step, exponential, plateau",
           .low = 0,
           .high = 1,
           .exclusive_low = true});
  v.field("step_size", c.step_size, above_zero("step: epochs between factors"));
  v.field("milestones", c.milestones, at_least(0, "multi_step: epochs"));
  v.field("minimum", c.minimum, at_least(0, "cosine, plateau: lowest rate"));
  v.field("peak_at", c.peak_at,
          {.about = "one_cycle: fraction of the run spent rising",
           .low = 0,
           .high = 1,
           .exclusive_low = true,
           .exclusive_high = true});
  v.field("start_divisor", c.start_divisor, at_least(1, "one_cycle: base over first rate"));
  v.field("final_divisor", c.final_divisor, at_least(1, "one_cycle: first over last rate"));
  int64_t patience = c.patience, cooldown = c.cooldown;
  v.field("patience", patience, {.about = "plateau: epochs forgiven", .low = 0, .high = 1e6});
  v.field("cooldown", cooldown,
          {.about = "plateau: epochs after a reduction that do not count", .low = 0, .high = 1e6});
  c.patience = static_cast<int>(patience);
  c.cooldown = static_cast<int>(cooldown);
  v.field("threshold", c.threshold, share("plateau: smallest relative improvement"));
  v.field("warmup", c.warmup, at_least(0, "epochs of linear rise before the schedule"));
  v.field("warmup_start", c.warmup_start,
          share("first rate as a fraction of the schedule's first"));
  v.field("restart", c.restart,
          {.about = "epochs after which the schedule restarts, warm-up included, over those that "
                    "remain; 0 is never",
           .low = 0,
           .high = 1e6});
  v.field("restart_factor", c.restart_factor, above_zero("of the learning rate after the restart"));
}

void train_fields(FieldVisitor& v, TrainSettings& c) {
  v.field("epochs", c.epochs, {.about = "passes over the training set", .low = 1, .high = 1e6});
  AutoInt batch_size{c.batch_size > 0 ? std::optional(c.batch_size) : std::nullopt};
  v.field("batch_size", batch_size,
          {.about = "examples per step, of all ranks together; rows of a language model; auto: the "
                    "most that the device's memory holds, at most 4096",
           .low = 1,
           .high = largest_batch_size});
  c.batch_size = batch_size.value.value_or(0);
  v.field("batch_size_per_gpu", c.batch_size_per_gpu,
          {.about = "examples per step of each rank, in place of train.batch_size; 0: that counts",
           .low = 0,
           .high = largest_batch_size});
  v.field("accumulate", c.accumulate,
          {.about = "batches per optimizer step", .low = 1, .high = 4096});
  v.field("drop_last", c.drop_last, {.about = "drop the last batch when it is not full"});
  v.field("sync_batch_norm", c.sync_batch_norm,
          {.about = "of several ranks: batch_norm's statistics are those of the whole batch"});
  v.field("time_budget_minutes", c.time_budget_minutes,
          at_least(0,
                   "save and stop after this time; a cosine or one_cycle schedule is laid over "
                   "the epochs that fit; 0 is no limit"));
  v.field("metric", EnumField(c.metric, Names(metric_names)),
          {.about = "metric that selects the best weights, on the validation set; auto: accuracy "
                    "of classes, mae of forecasts, loss of language models; f1: f1_class with a "
                    "positive_class, else f1_macro"});
  v.field("positive_class", c.positive_class, {.about = "class that f1_class is of; empty: none"});
  v.section("early_stopping", "stop when the metric stalls", [&c](FieldVisitor& s) {
    s.field("patience", c.early_stopping.patience,
            {.about = "validations without improvement; 0 is off", .low = 0, .high = 1e6});
    s.field("min_delta", c.early_stopping.min_delta, at_least(0, "smallest change that counts"));
  });
  v.field("log_every", c.log_every, {.about = "steps between logged steps", .low = 1, .high = 1e9});
  v.field("validate_every", c.validate_every,
          {.about = "epochs between validations", .low = 1, .high = 1e6});
  v.field(
      "overfit_batches", c.overfit_batches,
      {.about = "train on this many batches only, to test that they can be overfitted; 0 is off",
       .low = 0,
       .high = 1e6});
  v.field("histogram_every", c.histogram_every,
          {.about = "steps between rows of histograms.jsonl in the run folder: statistics of each "
                    "layer and parameter, for study gradient-flow; 0 is off",
           .low = 0,
           .high = 1e9});
  v.field("profile", c.profile,
          {.about = "batches to time layer by layer for trace.json in the run folder; 0 is off",
           .low = 0,
           .high = 1000});
  v.field("log_ranks", c.log_ranks,
          {.about = "each rank of several also writes its messages and times: log.rank1.txt, ... "
                    "in the run folder"});
  v.field("report", c.report,
          {.about = "write report.html in the run folder after epochs, where that takes at most 1 % "
                    "of the run's time, and at the end"});
  v.field("tensorboard", c.tensorboard,
          {.about = "also write losses, learning rate and metrics for TensorBoard, to tensorboard/ "
                    "in the run folder"});
}

void memory_fields(FieldVisitor& v, MemoryConfig& c) {
  v.field("mode", EnumField(c.mode, Names(memory_mode_names)),
          {.about = "GPU: allocate memory as needed, or all of the limit (without one, 0.9 of what "
                    "is free) at the start"});
  v.field("limit", c.limit,
          {.about = "largest memory of tensors: bytes such as 2GiB, or a fraction of the device's "
                    "memory such as 0.5; empty: no limit"});
}

}  // namespace

void visit_fields(FieldVisitor& v, Config& c) {
  v.field("name", c.name, {.about = "name of the run folder"});
  v.field("runs", c.runs, {.about = "folder that holds run folders"});
  v.field("seed", c.seed,
          {.about = "seed of all random numbers: weights, order, augmentation, dropout",
           .low = 0,
           .high = 9'007'199'254'740'992.0});
  v.field("device", c.device,
          {.about = "auto, cpu, cuda, cuda:N or reference; a list (cuda:0,cuda:1) trains on all"});
  v.field("precision", EnumField(c.precision, Names(precision_names)),
          {.about = "type that layers compute in; auto: bf16 on a GPU (f16 below compute "
                    "capability 8.0), else f32"});
  v.field("deterministic", c.deterministic,
          {.about = "fixed algorithms instead of timed ones: the same bits in every run, slower"});
  v.section("data", "examples and how they become the network's input",
            [&c](FieldVisitor& s) { data_fields(s, c.data); });
  v.section("augment", "random changes to training images",
            [&c](FieldVisitor& s) { augment_fields(s, c.augment); });
  v.node("model", c.model, {.about = "a preset's name, a list of layers, or a map of more"});
  v.section("init", "weights to start from", [&c](FieldVisitor& s) {
    s.field(
        "from", c.init.from,
        {.about =
             "safetensors file; empty: random weights. Keys of preprocessing that are not given "
             "(image_size, resize_short, mean, std, ...) come from it, too"});
    s.field(
        "key", c.init.key,
        {.about = "of a checkpoint: the key of its weights, as model_ema, or the words before a "
                  "dot in their tensors' names; empty: the likeliest, which is told"});
    s.field("skip", c.init.skip, {.about = "patterns of weights left random"});
    s.field("new_head", c.init.new_head,
            {.about = "re-initialise the last layer when the classes differ, by name or number"});
  });
  v.field("freeze", c.freeze, {.about = "patterns of parameters that are not trained"});
  v.field(
      "unfreeze_at", c.unfreeze_at,
      {.about = "epochs after which they are trained as well, with a new optimizer and schedule "
                "(schedule.restart); 0: never",
       .low = 0,
       .high = 1e6});
  v.field(
      "unfreeze_last", c.unfreeze_last,
      {.about = "fraction of the network's blocks of layers, rounded: the last ones are trained "
                "then; what freeze holds of the others stays frozen",
       .low = 0,
       .high = 1,
       .exclusive_low = true});
  v.field("freeze_norm", c.freeze_norm,
          {.about = "normalisation layers are not trained and keep their statistics"});
  v.field("features", EnumField(c.features, Names(feature_names)),
          {.about = "cached: while the first layers are frozen, their result is computed once per "
                    "image, without augmentation"});
  v.section("loss", "what is minimised", [&c](FieldVisitor& s) {
    s.field("kind", EnumField(c.loss.kind, Names(loss_names)),
            {.about = "auto: binary_cross_entropy for one output, else cross_entropy"});
    s.field("label_smoothing", c.loss.label_smoothing,
            below_one("fraction of the label spread over all classes"));
    s.field("class_weights", EnumField(c.loss.class_weights, Names(weighting_names)),
            {.about = "balanced: a class weighs more the rarer it is in the training set"});
  });
  v.section("optimizer", "how weights change",
            [&c](FieldVisitor& s) { optimizer_fields(s, c.optimizer); });
  v.section("schedule", "learning rate over time",
            [&c](FieldVisitor& s) { schedule_fields(s, c.schedule); });
  v.section(
      "ema", "moving average of the weights, used for validation and best", [&c](FieldVisitor& s) {
        s.field("decay", c.ema.decay,
                below_one("fraction of the average kept at each step; 0 is off"));
        s.field("warmup", c.ema.warmup,
                {.about = "a shorter average at first, so that the random start is forgotten"});
      });
  v.section("train", "the loop", [&c](FieldVisitor& s) { train_fields(s, c.train); });
  v.section("checkpoint", "what a stopped run resumes from", [&c](FieldVisitor& s) {
    s.field("every", c.checkpoint.every,
            {.about = "steps between checkpoints; 0: each epoch", .low = 0, .high = 1e9});
    s.field("keep", c.checkpoint.keep,
            {.about = "checkpoints kept in last/", .low = 1, .high = 1000});
  });
  v.section("runtime", "the machine", [&c](FieldVisitor& s) {
    s.field("threads", c.runtime.threads,
            {.about = "compute threads; 0: all cores", .low = 0, .high = 4096});
    s.field("winograd", c.runtime.winograd,
            {.about = "allow Winograd convolutions where they are faster"});
    s.field("graph", c.runtime.graph, {.about = "GPU: capture the step and replay it"});
    s.section("memory", "the device's memory",
              [&c](FieldVisitor& m) { memory_fields(m, c.runtime.memory); });
  });
}

}  // namespace whisker
