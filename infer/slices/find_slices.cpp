// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/find_slices.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "infer/asking/gf2.hpp"
#include "infer/asking/pages.hpp"
#include "infer/asking/stream.hpp"
#include "infer/slices/contention.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::uint64_t block_bytes = mapped_page_bytes;

// Readings that all have to say together before a line gets its label: one that is misread once in a hundred times is
// wrong once in 10^8 then.
constexpr unsigned sure = 4;

// How often what does not fit is asked in all.
constexpr int attempts_asked = 3;

class SliceSearch {
 public:
  SliceSearch(Asker& device, std::uint64_t sector_bytes, std::uint64_t home_mask)
      : device_(&device), contention_(device), sector_bytes_(sector_bytes), home_mask_(home_mask),
        random_(stream(device.settings(), "slices")) {
    first_block_ = bytes_to_next(device.buffer().address, block_bytes);
    const std::uint64_t bytes = device.buffer().bytes;
    blocks_ = bytes > first_block_ ? (bytes - first_block_) / block_bytes : 0;
  }

  FoundSlices find() {
    found_.block_bytes = block_bytes;
    if (blocks_ < 2) {
      return without("the buffer holds less than two aligned blocks of 2 MB");
    }
    std::vector<std::uint64_t> lines;
    for (std::uint64_t offset = 0; offset < block_bytes; offset += sector_bytes_) {
      if (may_share(first_block_, first_block_ + offset)) {
        lines.push_back(first_block_ + offset);
      }
    }
    if (!contention_.calibrate(lines, random_())) {
      return without("atomic additions to two lines take as long as to one");
    }
    found_.apart_cycles = contention_.apart_cycles();
    found_.together_cycles = contention_.together_cycles();
    find_bits();
    constexpr std::size_t most_bits = 14;
    if (bits_.size() > most_bits) {
      return without("more than 14 address bits tell slices apart inside a block of 2 MB");
    }
    label_block();
    confirm_labels();
    FoundStructure structure = find_structure({.bits = bits_, .labels = labels_});
    if (!structure.structure) {
      found_.why_no_structure = std::move(structure.reason);
      count_elsewhere();
      collect_sectors_of_one();
      return std::move(found_);
    }
    found_.structure = std::move(structure.structure);
    structure_constants_ = structure.constants;
    verify();
    return std::move(found_);
  }

 private:
  FoundSlices without(const std::string& reason) {
    found_.why_no_count = found_.why_no_structure = reason;
    return std::move(found_);
  }

  [[nodiscard]] bool is_in_first_block(std::uint64_t offset) const {
    return offset >= first_block_ && offset - first_block_ < block_bytes;
  }

  // Not where the lines have their homes in different parts. From block to block the parts may be swapped.
  [[nodiscard]] bool may_share(std::uint64_t one, std::uint64_t other) const {
    return !is_in_first_block(one) || !is_in_first_block(other) ||
           parity(device_->address_of(one) & home_mask_) == parity(device_->address_of(other) & home_mask_);
  }

  // Which of the pairs share a slice each time, of those that may.
  [[nodiscard]] std::vector<bool> surely_together(const std::vector<Pair>& pairs, unsigned times) {
    std::vector<Pair> asked;
    for (const Pair& pair : pairs) {
      if (may_share(pair[0], pair[1])) {
        asked.push_back(pair);
      }
    }
    const std::vector<bool> seen = contention_.surely_together(asked, times);
    std::vector<bool> together;
    auto next = seen.begin();
    for (const Pair& pair : pairs) {
      together.push_back(may_share(pair[0], pair[1]) && *next++);
    }
    return together;
  }

  [[nodiscard]] std::uint64_t any_line() { return random_.below(block_bytes / sector_bytes_) * sector_bytes_; }

  // Bits that make no difference to a line from anywhere in the block: one that makes a difference shows it by half of
  // the lines at least.
  void find_bits() {
    constexpr std::size_t lines_of_bit = 24;
    for (std::uint64_t step = sector_bytes_; step < block_bytes; step *= 2) {
      std::vector<Pair> pairs;
      for (std::size_t i = 0; i < lines_of_bit; ++i) {
        const std::uint64_t line = first_block_ + any_line();
        const std::uint64_t place = line - first_block_;
        pairs.push_back({line, first_block_ + (place ^ step)});
      }
      const std::vector<bool> together = contention_.voted(pairs);
      if (!std::ranges::all_of(together, [](bool each) { return each; })) {
        bits_.push_back(static_cast<unsigned>(std::countr_zero(step)));
      }
    }
  }

  [[nodiscard]] std::uint64_t line_at(std::uint64_t place) const { return first_block_ + address_of(place, bits_); }

  // Lines are compared with one of each slice that is known, in random order, slice by slice.
  void label_block() {
    std::vector<std::uint32_t> left(std::size_t{1} << bits_.size());
    labels_.resize(left.size());
    for (std::uint32_t i = 0; i < left.size(); ++i) {
      left[i] = i;
    }
    random_.shuffle(left);
    while (!left.empty()) {
      const std::uint32_t first = left.back();
      left.pop_back();
      if (const auto known = slice_among(members_, line_at(first))) {
        labels_[first] = *known;
        continue;
      }
      const auto label = static_cast<std::uint32_t>(members_.size());
      members_.push_back(line_at(first));
      labels_[first] = label;
      std::vector<Pair> pairs;
      for (const std::uint32_t place : left) {
        pairs.push_back({members_.back(), line_at(place)});
      }
      const std::vector<bool> together = surely_together(pairs, sure);
      std::vector<std::uint32_t> others;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (together[i]) {
          labels_[left[i]] = label;
        } else {
          others.push_back(left[i]);
        }
      }
      left = std::move(others);
    }
  }

  // A label rests on one pair of lines. Each is asked again with another line of the slice, and where that is apart,
  // with several lines of each slice.
  void confirm_labels() {
    constexpr std::size_t witnesses = 3;
    std::vector<std::vector<std::uint32_t>> places(members_.size());
    for (std::uint32_t place = 0; place < labels_.size(); ++place) {
      places[labels_[place]].push_back(place);
    }
    const auto any_of = [this](const std::vector<std::uint32_t>& some) {
      return line_at(some[random_.below(some.size())]);
    };
    std::vector<Pair> pairs;
    for (std::uint32_t place = 0; place < labels_.size(); ++place) {
      pairs.push_back({any_of(places[labels_[place]]), line_at(place)});
    }
    const std::vector<bool> confirmed = surely_together(pairs, 2);
    for (std::uint32_t place = 0; place < labels_.size(); ++place) {
      if (confirmed[place]) {
        continue;
      }
      std::vector<Pair> with_all;
      for (const std::vector<std::uint32_t>& some : places) {
        for (std::size_t witness = 0; witness < witnesses; ++witness) {
          with_all.push_back({any_of(some), line_at(place)});
        }
      }
      const std::vector<bool> together = contention_.voted(with_all);
      for (std::uint32_t label = 0; label < places.size(); ++label) {
        const auto first = together.begin() + static_cast<std::ptrdiff_t>(witnesses * label);
        if (may_share(members_[label], line_at(place)) &&
            std::all_of(first, first + witnesses, [](bool each) { return each; })) {
          labels_[place] = label;
        }
      }
    }
  }

  // The one of these lines that shares a slice with the line, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> slice_among(const std::vector<std::uint64_t>& members,
                                                         std::uint64_t line) {
    std::vector<std::uint32_t> of_pair;
    std::vector<Pair> pairs;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      if (may_share(members[i], line)) {
        of_pair.push_back(i);
        pairs.push_back({members[i], line});
      }
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (const auto closest = contention_.closest(pairs, sure)) {
        return of_pair[*closest];
      }
    }
    return std::nullopt;
  }

  // Where nothing is known but slices of one block: whether lines from everywhere lie in them too.
  void count_elsewhere() {
    constexpr std::size_t lines_of_slice = 16;
    std::vector<std::uint64_t> left;
    for (std::size_t i = 0; i < lines_of_slice * members_.size(); ++i) {
      left.push_back(first_block_ + random_.below(blocks_) * block_bytes + any_line());
    }
    for (const std::uint64_t member : members_) {
      std::vector<Pair> pairs;
      for (const std::uint64_t line : left) {
        pairs.push_back({member, line});
      }
      const std::vector<bool> together = surely_together(pairs, 2);
      std::vector<std::uint64_t> others;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (!together[i]) {
          others.push_back(left[i]);
        }
      }
      left = std::move(others);
    }
    for (const std::uint64_t line : left) {
      if (!slice_among(members_, line)) {
        found_.why_no_count = "a line elsewhere lies in none of the " + std::to_string(members_.size()) +
                              " slices that lines of one block of 2 MB lie in";
        return;
      }
    }
    found_.count = static_cast<std::uint32_t>(members_.size());
  }

  struct Labelled {
    std::uint64_t place = 0;
    std::uint32_t label = 0;
  };

  // A block and what it adds.
  struct Block {
    std::uint64_t offset = 0;
    BlockConstants constants = {};
  };

  // The first line of a block tells the parities and the number; one line for each digit, which way it counts.
  std::optional<Block> block_at(std::uint64_t offset) {
    const SliceStructure& structure = *found_.structure;
    const auto rows = structure.row_masks.size();
    const auto first = slice_among(member_of_slice_, offset);
    if (!first) {
      return std::nullopt;
    }
    const std::uint32_t row_flips = *first & ((1U << rows) - 1);
    const std::uint32_t number = *first >> rows;
    std::vector<Pair> pairs;
    const auto numbered = [&](std::uint32_t other) {
      return member_of_slice_[(other % structure.modulo) << rows | row_flips];
    };
    for (std::size_t i = 0; i < structure.weights.size(); ++i) {
      const std::uint64_t line = offset + structure.digit_steps[i];
      pairs.push_back({numbered(number + structure.weights[i]), line});
      pairs.push_back({numbered(number + structure.modulo - structure.weights[i]), line});
    }
    const std::vector<bool> together = surely_together(pairs, sure);
    std::uint32_t digit_flips = 0;
    for (std::size_t i = 0; i < structure.weights.size(); ++i) {
      if (together[2 * i] == together[2 * i + 1]) {
        return std::nullopt;
      }
      digit_flips |= (together[2 * i + 1] ? 1U : 0U) << i;
    }
    return Block{.offset = offset, .constants = constants_of(structure, *first, digit_flips)};
  }

  // What a block adds rests on a line for each digit, and one that is misread puts half of its lines into other slices:
  // lines that took no part in that have to lie where they should. A block that does not tell is none.
  std::optional<Block> confirmed_block_at(std::uint64_t offset) {
    constexpr std::size_t lines_asked = 12;
    for (int attempt = 0; attempt < attempts_asked; ++attempt) {
      const std::optional<Block> block = block_at(offset);
      if (!block) {
        continue;
      }
      std::vector<Pair> pairs;
      for (std::size_t i = 0; i < lines_asked; ++i) {
        const std::uint64_t place = any_line();
        pairs.push_back({member_of_slice_[slice_of(*found_.structure, block->constants, place)], offset + place});
      }
      if (std::ranges::all_of(surely_together(pairs, sure), std::identity{})) {
        return block;
      }
    }
    return std::nullopt;
  }

  // Slices are as many as the structure has numbers, if a line was seen in each and lines from everywhere lie in them.
  void verify() {
    const auto count = found_.structure->modulo << found_.structure->row_masks.size();
    if (members_.size() != count) {
      withdraw("lines of one block of 2 MB lie in " + std::to_string(members_.size()) +
               " slices, and their index has " + std::to_string(count));
      return;
    }
    const std::vector<Block> blocks = chooses_senses() ? other_blocks() : std::vector<Block>{};
    if (blocks.empty()) {
      withdraw("in another block of 2 MB lines lie otherwise than parities that flip and numbers that shift allow");
      return;
    }
    found_.blocks = blocks.size();
    ask_fresh_pairs(blocks);
    constexpr std::size_t most_wrong = 2;  // of 20,000
    if (found_.fresh.wrong > most_wrong) {
      withdraw("of " + std::to_string(found_.fresh.asked) + " fresh pairs " + std::to_string(found_.fresh.wrong) +
               " are otherwise than the index says");
      return;
    }
    found_.count = count;
    collect_sectors();
    name_as_blocks_do(blocks);
  }

  [[nodiscard]] std::uint64_t any_block() { return first_block_ + random_.below(blocks_) * block_bytes; }

  // What blocks tell may be misread, so others are asked then.
  bool chooses_senses() {
    const SliceStructure first = *found_.structure;
    for (int attempt = 0; attempt < attempts_asked; ++attempt) {
      if (choose_senses(first)) {
        return true;
      }
    }
    return false;
  }

  // One block does not tell whether numbers go up or down where a row differs, and any choice explains it. In other
  // blocks, where numbers are shifted, one choice does.
  bool choose_senses(const SliceStructure& first) {
    constexpr std::size_t blocks_asked = 4;
    constexpr std::size_t more_lines = 24;
    std::vector<std::vector<Labelled>> seen(blocks_asked);
    for (std::vector<Labelled>& lines : seen) {
      std::vector<std::uint64_t> places{0};
      places.insert(places.end(), first.digit_steps.begin(), first.digit_steps.end());
      for (std::size_t i = 0; i < more_lines; ++i) {
        places.push_back(any_line());
      }
      const std::uint64_t block = any_block();
      for (const std::uint64_t place : places) {
        const auto label = slice_among(members_, block + place);
        if (!label) {
          return false;
        }
        lines.push_back({.place = place, .label = *label});
      }
    }
    for (std::uint32_t rows = 0; rows < std::uint32_t{1} << first.row_masks.size(); ++rows) {
      found_.structure = with_rows(first, rows);
      name_members();
      if (std::ranges::all_of(seen, [this](const auto& lines) { return explains(lines); })) {
        return true;
      }
    }
    return false;
  }

  static SliceStructure with_rows(SliceStructure structure, std::uint32_t rows) {
    for (std::size_t row = 0; row < structure.row_masks.size(); ++row) {
      for (std::uint64_t& mask : structure.digit_masks) {
        mask ^= ((rows >> row) & 1U) != 0 ? structure.row_masks[row] : 0;
      }
    }
    return structure;
  }

  void name_members() {
    slice_of_member_.clear();
    member_of_slice_.assign(members_.size(), 0);
    for (const std::uint64_t member : members_) {
      slice_of_member_.push_back(slice_of(*found_.structure, structure_constants_, member - first_block_));
      member_of_slice_[slice_of_member_.back()] = member;
    }
  }

  // Whether the block adds what its first lines tell, the one at its begin and one for each digit.
  [[nodiscard]] bool explains(const std::vector<Labelled>& lines) const {
    const SliceStructure& structure = *found_.structure;
    const auto rows = structure.row_masks.size();
    const std::uint32_t first = slice_of_member_[lines.front().label];
    const std::uint32_t number = first >> rows;
    std::uint32_t digit_flips = 0;
    for (std::size_t i = 0; i < structure.weights.size(); ++i) {
      const bool flips =
          slice_of_member_[lines[1 + i].label] >> rows != (number + structure.weights[i]) % structure.modulo;
      digit_flips |= (flips ? 1U : 0U) << i;
    }
    const BlockConstants constants = constants_of(structure, first, digit_flips);
    return std::ranges::all_of(lines, [&](const Labelled& line) {
      return slice_of(structure, constants, line.place) == slice_of_member_[line.label];
    });
  }

  // Pairs of neighbours, up to so many blocks. Empty where one adds what it should not.
  std::vector<Block> other_blocks() {
    constexpr std::uint64_t most_pairs = 24;
    std::vector<Block> blocks;
    for (std::uint64_t i = 0; i < std::min(most_pairs, blocks_ / 2); ++i) {
      const std::uint64_t even = first_block_ + random_.below(blocks_ / 2) * 2 * block_bytes;
      for (const std::uint64_t offset : {even, even + block_bytes}) {
        std::optional<Block> block;
        for (int attempt = 0; attempt < attempts_asked && !block; ++attempt) {
          block = block_at(offset);
        }
        if (!block) {
          return {};
        }
        blocks.push_back(*block);
      }
    }
    return blocks;
  }

  // A digit that nearly all blocks flip is written as what counts the other way; where blocks differ, either way is as
  // good, and the smaller weight stands for both. Where the number goes up by the same from most blocks to the next, it
  // is counted in that: the address above the block is added as it is then.
  void name_as_blocks_do(const std::vector<Block>& blocks) {
    constexpr std::size_t few_one_in = 8;
    SliceStructure& structure = *found_.structure;
    std::vector<std::size_t> either_way;
    for (std::size_t i = 0; i < structure.weights.size(); ++i) {
      const auto flipped = static_cast<std::size_t>(std::ranges::count_if(
          blocks, [i](const Block& block) { return ((block.constants.digit_flips >> i) & 1U) != 0; }));
      if (few_one_in * std::min(flipped, blocks.size() - flipped) > blocks.size()) {
        either_way.push_back(i);
      } else if (2 * flipped > blocks.size()) {
        structure.weights[i] = structure.modulo - structure.weights[i];
      }
    }
    count_in(common_step(blocks));
    for (const std::size_t i : either_way) {
      structure.weights[i] = std::min(structure.weights[i], structure.modulo - structure.weights[i]);
    }
  }

  // What the number goes up by from most blocks to the next, if numbers can be counted in it; else 1.
  [[nodiscard]] std::uint32_t common_step(const std::vector<Block>& blocks) const {
    std::map<std::uint32_t, std::size_t> steps;
    for (std::size_t i = 0; i + 1 < blocks.size(); i += 2) {
      ++steps[step_between(blocks[i], blocks[i + 1])];
    }
    for (const auto& [step, times] : steps) {
      if (2 * times > blocks.size() / 2 && std::gcd(step, found_.structure->modulo) == 1) {
        return step;
      }
    }
    return 1;
  }

  void count_in(std::uint32_t step) {
    SliceStructure& structure = *found_.structure;
    std::uint64_t inverse = 1;
    while (inverse * step % structure.modulo != 1 % structure.modulo) {
      ++inverse;
    }
    for (std::uint32_t& weight : structure.weights) {
      weight = static_cast<std::uint32_t>(weight * inverse % structure.modulo);
    }
  }

  // By how much the number goes up, flips aside.
  [[nodiscard]] std::uint32_t step_between(const Block& one, const Block& next) const {
    const std::uint32_t modulo = found_.structure->modulo;
    return (next.constants.shift + modulo - one.constants.shift) % modulo;
  }

  void withdraw(const std::string& reason) {
    found_.structure.reset();
    found_.why_no_structure = reason;
    count_elsewhere();
    collect_sectors_of_one();
  }

  // Sectors from everywhere that share a slice with the first line.
  void collect_sectors_of_one() {
    constexpr std::size_t sectors_wanted = 12000;
    if (!found_.count) {
      return;
    }
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < sectors_wanted * *found_.count; ++i) {
      pairs.push_back({members_.front(), any_block() + any_line()});
    }
    const std::vector<bool> together = surely_together(pairs, 3);
    std::vector<std::uint64_t>& sectors = found_.sectors.emplace_back();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (together[i]) {
        sectors.push_back(pairs[i][1]);
      }
    }
  }

  // Of all blocks that tell what they add, up to so many.
  void collect_sectors() {
    constexpr std::uint64_t most_blocks = 128;
    found_.sectors.resize(*found_.count);
    for (std::uint64_t i = 0; i < std::min(most_blocks, blocks_); ++i) {
      if (const auto block = confirmed_block_at(first_block_ + i * block_bytes)) {
        for (std::uint64_t place = 0; place < block_bytes; place += sector_bytes_) {
          found_.sectors[slice_of(*found_.structure, block->constants, place)].push_back(block->offset + place);
        }
      }
    }
  }

  // By the number of a slice, whether its lines have their homes in the second part; all in the first where there are
  // no parts.
  [[nodiscard]] std::vector<bool> second_part() const {
    const std::vector<std::uint64_t>& rows = found_.structure->row_masks;
    std::vector<bool> is_second(member_of_slice_.size());
    // Of two slices, one in each part, no other pairs are apart.
    for (std::uint32_t some = 1; is_second.size() > 2 && some < std::uint32_t{1} << rows.size(); ++some) {
      std::uint64_t mask = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        mask ^= ((some >> i) & 1U) != 0 ? rows[i] : 0;
      }
      if (mask == home_mask_) {
        for (std::uint32_t slice = 0; slice < is_second.size(); ++slice) {
          is_second[slice] = parity(slice & some) != 0;
        }
      }
    }
    return is_second;
  }

  // Half of them together, and the others of slices of one part: those of different parts are not mistaken for lines of
  // one slice by whoever knows the parts.
  void ask_fresh_pairs(const std::vector<Block>& blocks) {
    constexpr std::size_t pairs_asked = 20000;
    struct Line {
      std::uint64_t offset;
      std::uint32_t slice;
    };
    std::vector<Line> lines;
    std::map<std::uint32_t, std::vector<std::uint64_t>> of_slice;
    for (std::size_t i = 0; i < 2 * pairs_asked; ++i) {
      const Block& block = blocks[random_.below(blocks.size())];
      const std::uint64_t place = any_line();
      lines.push_back({block.offset + place, slice_of(*found_.structure, block.constants, place)});
      of_slice[lines.back().slice].push_back(lines.back().offset);
    }
    const std::vector<bool> is_second = second_part();
    std::vector<Pair> pairs;
    std::vector<bool> said;
    while (pairs.size() < pairs_asked) {
      const Line& one = lines[random_.below(lines.size())];
      const Line& other = lines[random_.below(lines.size())];
      const std::vector<std::uint64_t>& alike = of_slice[one.slice];
      const std::uint64_t mate = alike[random_.below(alike.size())];
      if (pairs.size() % 2 == 0 && mate != one.offset) {
        pairs.push_back({one.offset, mate});
        said.push_back(true);
      } else if (pairs.size() % 2 == 1 && other.slice != one.slice && is_second[other.slice] == is_second[one.slice]) {
        pairs.push_back({one.offset, other.offset});
        said.push_back(false);
      }
    }
    const std::vector<bool> seen = contention_.read(pairs);
    std::vector<Pair> doubtful;
    std::vector<bool> said_of_doubtful;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (seen[i] != said[i]) {
        doubtful.push_back(pairs[i]);
        said_of_doubtful.push_back(said[i]);
      }
    }
    const std::vector<bool> again = contention_.voted(doubtful);
    found_.fresh.asked = pairs.size();
    found_.fresh.together = static_cast<std::size_t>(std::ranges::count(said, true));
    for (std::size_t i = 0; i < again.size(); ++i) {
      found_.fresh.wrong += again[i] != said_of_doubtful[i] ? 1U : 0U;
    }
  }

  Asker* device_;
  Contention contention_;
  std::uint64_t sector_bytes_;
  std::uint64_t home_mask_;
  model::Random random_;
  std::uint64_t first_block_ = 0;  // offset of the first aligned one
  std::uint64_t blocks_ = 0;
  std::vector<unsigned> bits_;
  std::vector<std::uint32_t> labels_;
  std::vector<std::uint64_t> members_;  // one line of each slice, by label
  BlockConstants structure_constants_;
  std::vector<std::uint32_t> slice_of_member_;  // by label
  std::vector<std::uint64_t> member_of_slice_;  // by the number of the slice
  FoundSlices found_;
};

}  // namespace

FoundSlices find_slices(Asker& device, std::uint64_t sector_bytes, std::uint64_t home_mask) {
  return SliceSearch(device, sector_bytes, home_mask).find();
}

}  // namespace gpuinfer::infer
