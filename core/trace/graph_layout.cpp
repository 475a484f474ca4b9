// Four steps: rows, slots (edges over several rows get a thin slot in each), order, columns.
#include "core/trace/graph_layout.h"

#include "core/error.h"

#include <algorithm>

namespace whisker {
namespace {

// Parameters, which have nothing above, follow their operator and hardly pull it.
constexpr double source_weight = 0.02;

// A box, or the point where an edge crosses a row. Indices below boxes.size() are boxes.
struct Slot {
  int row = 0;
  double width = 0, anchor = 0;
  double x = 0;  // of the anchor
  std::vector<size_t> above = {}, below = {};
};

class Placer {
 public:
  explicit Placer(GraphLayout& layout) : layout_(layout) {}

  void run() {
    if (layout_.boxes.empty()) return;
    assign_rows();
    make_slots();
    order_rows();
    place_columns();
    write_back();
  }

 private:
  // Longest path from a source; sources then sink towards what uses them.
  void assign_rows() {
    const size_t count = layout_.boxes.size();
    std::vector<std::vector<size_t>> uses(count);
    std::vector<int> waiting(count, 0);
    for (const LayoutEdge& edge : layout_.edges) {
      uses[edge.from].push_back(edge.to);
      ++waiting[edge.to];
    }
    std::vector<bool> source(count);
    std::vector<size_t> ready;
    for (size_t i = 0; i < count; ++i) {
      layout_.boxes[i].row = 0;
      source[i] = waiting[i] == 0;
      if (source[i]) ready.push_back(i);
    }
    size_t done = 0;
    for (; done < ready.size(); ++done) {
      const size_t box = ready[done];
      for (const size_t user : uses[box]) {
        layout_.boxes[user].row = std::max(layout_.boxes[user].row, layout_.boxes[box].row + 1);
        if (--waiting[user] == 0) ready.push_back(user);
      }
    }
    if (done < count) fail(ErrorKind::usage, "graph layout: the graph has a cycle");
    for (size_t i = 0; i < count; ++i) {
      if (!source[i] || uses[i].empty()) continue;
      int first = layout_.boxes[uses[i][0]].row;
      for (const size_t user : uses[i]) first = std::min(first, layout_.boxes[user].row);
      layout_.boxes[i].row = first - 1;
    }
  }

  void make_slots() {
    for (const LayoutBox& box : layout_.boxes) {
      slots_.push_back({.row = box.row, .width = box.width, .anchor = box.anchor});
    }
    for (LayoutEdge& edge : layout_.edges) {
      std::vector<size_t> chain = {edge.from};
      for (int row = slots_[edge.from].row + 1; row < slots_[edge.to].row; ++row) {
        chain.push_back(slots_.size());
        slots_.push_back({.row = row, .width = 2, .anchor = 1});
      }
      chain.push_back(edge.to);
      for (size_t i = 1; i < chain.size(); ++i) {
        slots_[chain[i - 1]].below.push_back(chain[i]);
        slots_[chain[i]].above.push_back(chain[i - 1]);
      }
      chains_.push_back(std::move(chain));
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      const auto row = static_cast<size_t>(slots_[i].row);
      if (rows_.size() <= row) rows_.resize(row + 1);
      rows_[row].push_back(i);
    }
  }

  std::vector<size_t> positions() const {
    std::vector<size_t> position(slots_.size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) position[row[i]] = i;
    }
    return position;
  }

  int64_t crossings() const {
    const std::vector<size_t> position = positions();
    int64_t total = 0;
    for (const auto& row : rows_) {
      std::vector<size_t> ends;  // of the edges downwards, by start
      for (const size_t slot : row) {
        std::vector<size_t> mine;
        for (const size_t other : slots_[slot].below) mine.push_back(position[other]);
        std::sort(mine.begin(), mine.end());
        for (const size_t end : mine) {
          total += std::count_if(ends.begin(), ends.end(), [&](size_t e) { return e > end; });
        }
        ends.insert(ends.end(), mine.begin(), mine.end());
      }
    }
    return total;
  }

  // Sorts a row by the mean position of its neighbours; slots without any keep theirs.
  void sort_row(std::vector<size_t>& row, bool by_above) const {
    const std::vector<size_t> position = positions();
    std::vector<std::pair<double, size_t>> keyed;
    for (const size_t slot : row) {
      const auto& others = by_above ? slots_[slot].above : slots_[slot].below;
      double key = static_cast<double>(position[slot]);
      if (!others.empty()) {
        key = 0;
        for (const size_t other : others) key += static_cast<double>(position[other]);
        key /= static_cast<double>(others.size());
      }
      keyed.emplace_back(key, slot);
    }
    std::stable_sort(keyed.begin(), keyed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < row.size(); ++i) row[i] = keyed[i].second;
  }

  void order_rows() {
    auto best = rows_;
    int64_t fewest = crossings();
    for (int sweep = 0; sweep < 12 && fewest > 0; ++sweep) {
      for (size_t r = 1; r < rows_.size(); ++r) sort_row(rows_[r], true);
      for (size_t r = rows_.size() - 1; r-- > 0;) sort_row(rows_[r], false);
      if (const int64_t now = crossings(); now < fewest) {
        fewest = now;
        best = rows_;
      }
    }
    rows_ = best;
  }

  double distance(const Slot& left, const Slot& right) const {
    return left.width - left.anchor + layout_.column_gap + right.anchor;
  }

  // Moves a row's anchors as near to `wish` as order and distances allow: least squares
  // with order constraints, solved by pooling adjacent violators (Ayer et al. 1955).
  void settle(const std::vector<size_t>& row, const std::vector<double>& wish) {
    struct Pool {
      double sum, weight;
      size_t size;
      double value() const { return sum / weight; }
    };
    std::vector<Pool> pools;
    std::vector<double> offset(row.size(), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      const Slot& slot = slots_[row[i]];
      if (i > 0) offset[i] = offset[i - 1] + distance(slots_[row[i - 1]], slot);
      const double weight = slot.above.empty() ? source_weight : 1;
      pools.push_back({weight * (wish[i] - offset[i]), weight, 1});
      while (pools.size() > 1 && pools[pools.size() - 2].value() > pools.back().value()) {
        const Pool last = pools.back();
        pools.pop_back();
        pools.back().sum += last.sum;
        pools.back().weight += last.weight;
        pools.back().size += last.size;
      }
    }
    size_t i = 0;
    for (const Pool& pool : pools) {
      for (size_t k = 0; k < pool.size; ++k, ++i) slots_[row[i]].x = pool.value() + offset[i];
    }
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  }

  void place_columns() {
    for (const auto& row : rows_) settle(row, std::vector<double>(row.size(), 0));
    // Towards the median of the neighbours on one side. The last sweep goes up, so that chains
    // stand straight over what they lead to.
    const auto pull = [&](const std::vector<size_t>& row, bool to_above) {
      std::vector<double> wish;
      for (const size_t index : row) {
        const Slot& slot = slots_[index];
        std::vector<double> xs;
        const std::vector<size_t>& near = to_above ? slot.above : slot.below;
        const auto pulls = [&](size_t other) { return !to_above || !slots_[other].above.empty(); };
        const bool any = std::any_of(near.begin(), near.end(), pulls);
        for (const size_t other : near) {
          if (!any || pulls(other)) xs.push_back(slots_[other].x);
        }
        wish.push_back(xs.empty() ? slot.x : median(std::move(xs)));
      }
      settle(row, wish);
    };
    for (int sweep = 0; sweep < 16; ++sweep) {
      for (const auto& row : rows_) pull(row, true);
      for (size_t r = rows_.size(); r-- > 0;) pull(rows_[r], false);
    }
  }

  void write_back() {
    std::vector<double> top(rows_.size() + 1, 0), height(rows_.size(), 0);
    double left = 0, right = 0;
    bool first = true;
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (const size_t slot : rows_[r]) {
        if (slot < layout_.boxes.size()) {
          height[r] = std::max(height[r], layout_.boxes[slot].height);
        }
        const double begin = slots_[slot].x - slots_[slot].anchor;
        left = first ? begin : std::min(left, begin);
        right = first ? begin + slots_[slot].width : std::max(right, begin + slots_[slot].width);
        first = false;
      }
      top[r + 1] = top[r] + height[r] + layout_.row_gap;
    }
    layout_.width = right - left;
    layout_.height = top.back() - layout_.row_gap;
    for (size_t i = 0; i < layout_.boxes.size(); ++i) {
      LayoutBox& box = layout_.boxes[i];
      const auto row = static_cast<size_t>(box.row);
      box.corner = {slots_[i].x - box.anchor - left, top[row] + (height[row] - box.height) / 2};
    }
    for (size_t e = 0; e < layout_.edges.size(); ++e) {
      LayoutEdge& edge = layout_.edges[e];
      const LayoutBox& from = layout_.boxes[edge.from];
      const LayoutBox& to = layout_.boxes[edge.to];
      edge.points = {{from.corner.x + from.anchor, from.corner.y + from.height}};
      for (size_t i = 1; i + 1 < chains_[e].size(); ++i) {
        const Slot& slot = slots_[chains_[e][i]];
        const auto row = static_cast<size_t>(slot.row);
        edge.points.push_back({slot.x - left, top[row]});
        edge.points.push_back({slot.x - left, top[row] + height[row]});
      }
      edge.points.push_back({to.corner.x + to.anchor, to.corner.y});
    }
  }

  GraphLayout& layout_;
  std::vector<Slot> slots_;
  std::vector<std::vector<size_t>> rows_;
  std::vector<std::vector<size_t>> chains_;  // the slots of each edge
};

}  // namespace

void GraphLayout::place() {
  Placer(*this).run();
}

}  // namespace whisker
