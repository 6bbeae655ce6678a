// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/shared_work.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "cli/parallel.hpp"
#include "infer/asking/ending.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

// How what a rank gives begins.
enum class Mark : char { part = 'p', ended = 'e', bad_input = 'i', failure = 'f' };

// Comes out where this rank or another one has failed, when all know.
struct AllKnow {
  Mark mark = Mark::failure;
  std::string sentence;
};

template <class Value>
std::string bytes_of(std::span<const Value> values) {
  const auto bytes = std::as_bytes(values);
  std::string text(bytes.size(), '\0');
  std::ranges::transform(bytes, text.begin(), [](std::byte byte) { return static_cast<char>(byte); });
  return text;
}

template <class Value>
std::vector<Value> values_of(const std::string& bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  const auto places = std::as_writable_bytes(std::span(values));
  std::ranges::transform(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(places.size()), places.begin(),
                         [](char byte) { return static_cast<std::byte>(byte); });
  return values;
}

std::string said_by(std::size_t rank, const std::string& sentence) {
  return rank == 0 ? sentence : "on rank " + std::to_string(rank) + ": " + sentence;
}

}  // namespace

infer::Scorer scorer_on_threads(std::optional<std::size_t> jobs, std::function<void()> at_times) {
  return [jobs, at_times = std::move(at_times)](std::size_t hypotheses, const infer::Score& score) {
    std::vector<infer::Scored> scored(hypotheses);
    for_each_index(hypotheses, jobs, [&](std::size_t i) {
      at_times();
      scored[i] = score(i);
    });
    return scored;
  };
}

std::vector<std::string> SharedWork::gather(const std::string& own) {
  std::vector<std::string> parts = ranks_->gather(own);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    std::string& part = parts[rank];
    const Mark mark{part.front()};
    part.erase(0, 1);
    if (mark == Mark::ended) {
      throw infer::AskingEnded(part);
    }
    if (mark != Mark::part) {
      throw AllKnow{.mark = mark, .sentence = said_by(rank, part)};
    }
  }
  return parts;
}

ExitStatus SharedWork::run(const std::function<ExitStatus()>& work) {
  const auto tell_all = [this](Mark mark, const std::string& sentence) {
    static_cast<void>(gather(static_cast<char>(mark) + sentence));
  };
  try {
    try {
      const ExitStatus status = work();
      tell_all(Mark::part, "");
      return status;
    } catch (const InputError& error) {
      tell_all(Mark::bad_input, error.what());
    } catch (const std::exception& error) {
      tell_all(Mark::failure, error.what());
    }
  } catch (const AllKnow& all_know) {
    if (all_know.mark == Mark::bad_input) {
      throw InputError(all_know.sentence);
    }
    throw Error(all_know.sentence);
  }
  return ExitStatus::failure;
}

infer::Scorer SharedWork::scorer(infer::Scorer own) {
  return [this, own = std::move(own)](std::size_t hypotheses, const infer::Score& score) {
    const std::size_t ranks = ranks_->size();
    // Neighbours cost about the same, so each rank takes one in turn, and the next time they begin where they ended.
    const auto place_of = [&, first = first_rank_](std::size_t rank) { return (rank + ranks - first) % ranks; };
    first_rank_ = (first_rank_ + hypotheses) % ranks;
    const std::size_t place = place_of(ranks_->rank());
    const std::size_t share = (hypotheses + ranks - 1 - place) / ranks;
    std::string part;
    try {
      const std::vector<infer::Scored> mine = own(share, [&](std::size_t i) { return score(i * ranks + place); });
      hypotheses_ += mine.size();
      part = static_cast<char>(Mark::part) + bytes_of(std::span<const infer::Scored>(mine));
    } catch (const infer::AskingEnded& ended) {
      part = static_cast<char>(Mark::ended) + std::string(ended.what());
    }
    const std::vector<std::string> parts = gather(part);
    std::vector<infer::Scored> scored(hypotheses);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto of_rank = values_of<infer::Scored>(parts[rank]);
      for (std::size_t i = 0; i < of_rank.size(); ++i) {
        scored[i * ranks + place_of(rank)] = of_rank[i];
      }
    }
    return scored;
  };
}

bool SharedWork::agree(bool holds) {
  return gather(std::string{static_cast<char>(Mark::part), holds ? '1' : '0'}).front() == "1";
}

std::vector<std::size_t> SharedWork::hypotheses_of_ranks() {
  std::vector<std::size_t> of_ranks;
  for (const std::string& part :
       gather(static_cast<char>(Mark::part) + bytes_of(std::span<const std::size_t>(&hypotheses_, 1)))) {
    of_ranks.push_back(values_of<std::size_t>(part).front());
  }
  return of_ranks;
}

}  // namespace gpuinfer::cli
