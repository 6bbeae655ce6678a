// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/policy/policy_questions.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// A question that was put to one set, and how its accesses were read.
struct SetAnswer {
  const ConflictClass* set = nullptr;
  PolicyQuestion question;
  model::Question played;
  bool has_context = false;      // accesses to other sets came before
  unsigned votes = 1;            // a reading is the majority of so many
  std::vector<Reading> last;     // by access, when the question was asked last
  std::vector<unsigned> missed;  // how often read so, by access; unclear readings are in neither
  std::vector<unsigned> hit;
};

// The search for the deterministic policy of some sets among hypotheses. What contradicts an answer beyond what
// misreads do is ruled out; what contradicts it by so little that it may be misreads has the question asked again. So
// nothing passes by a tolerance, and nothing goes for a misread.
class PolicySearch {
 public:
  // Sets are of one cache, have more ways than one each, and outlive the search. `others`: further sets of it.
  PolicySearch(Interrogator& device, std::vector<const ConflictClass*> sets, std::vector<const ConflictClass*> others,
               std::vector<model::Replacement> hypotheses);

  // Asks what tells most, on sets of every number of ways, until nothing tells the survivors apart, and joins those
  // that behave alike.
  void narrow();

  // A chase past each number of ways, then long random walks on the sets, every other one over lines that come back
  // soon, the last ones after accesses to other sets, and the first question once more at the end. Ends as soon as
  // nothing survives.
  void confirm();

  // Short walks on the others.
  void check_others();

  [[nodiscard]] std::vector<model::Replacement> survivors() const;
  // False while something survives only because its states are too many to be followed.
  [[nodiscard]] bool are_proven() const;
  // No sequence of so many accesses tells survivors from what they are said to be equivalent to; longer ones may.
  [[nodiscard]] std::optional<unsigned> alike_for_accesses() const { return alike_for_accesses_; }
  [[nodiscard]] std::size_t sequences() const { return answers_.size(); }
  [[nodiscard]] const std::deque<SetAnswer>& answers() const { return answers_; }

  // The same question again, three times and with votes, after accesses to other sets or not; outside the log.
  [[nodiscard]] SetAnswer ask_anew(const SetAnswer& answer, bool with_context);

  // Loads so many lines of the set that whatever it did before does not matter: what questions are to be primed with.
  [[nodiscard]] Primer conditioning_of(const ConflictClass& set) const;

  // True when two answers to the same question differ by more than misreads.
  [[nodiscard]] bool differ(const SetAnswer& a, const SetAnswer& b) const;

 private:
  struct Hypothesis {
    model::Replacement policy;
    std::map<std::uint32_t, PolicyOnSet> on_set;  // by ways
    bool is_proven = true;                        // some sampled state explains every answer
    unsigned histories = few_histories;
    // Where a set does not start empty, of all readings that several states may explain:
    std::size_t wrong = 0;
    double misreads = 0;
    std::size_t judged = 0;
  };
  // Undecidable: no sampled state explains the answer, and states that were not sampled might.
  enum class Verdict { explains, undecidable, open, contradicts };

  [[nodiscard]] const PolicyOnSet& on_set(Hypothesis& hypothesis, std::uint32_t ways) const;
  static void draw_larger_sample(Hypothesis& hypothesis);
  [[nodiscard]] model::Question played(const ConflictClass& set, const SetLines& record,
                                       const AccessSequence& context) const;
  void read(SetAnswer& answer);
  [[nodiscard]] double misread_rate(unsigned votes) const;
  [[nodiscard]] double misreads_of(const Outcomes& missed) const;
  [[nodiscard]] Verdict verdict(const SetAnswer& answer, const Outcomes& missed) const;
  [[nodiscard]] Verdict judge(const SetAnswer& answer, Hypothesis& hypothesis) const;
  [[nodiscard]] Verdict judge_last(const SetAnswer& answer, Hypothesis& hypothesis,
                                   std::vector<Prediction> predictions) const;
  void ask(const ConflictClass& set, PolicyQuestion question, const AccessSequence& context, const std::string& why);

  using QuestionPool = std::vector<PolicyQuestion> (*)(const SetFrame& frame, std::uint64_t draw);
  // Ends when so many questions were answered altogether.
  void narrow_on(const ConflictClass& set, QuestionPool pool_of, std::size_t most_answers);
  [[nodiscard]] const ConflictClass& first_of(std::uint32_t ways) const;
  void join_alike();
  void join_indistinguishable();
  [[nodiscard]] std::optional<unsigned> accesses_alike(Hypothesis& a, Hypothesis& b, std::uint32_t ways) const;
  [[nodiscard]] FollowLimits follow_limits() const;
  [[nodiscard]] bool are_indistinguishable(Hypothesis& a, Hypothesis& b);
  bool tell_apart(Hypothesis& a, Hypothesis& b);
  [[nodiscard]] AccessSequence context_for(const ConflictClass& set, bool thrashes) const;

  Interrogator* device_;
  std::vector<const ConflictClass*> sets_;
  std::vector<const ConflictClass*> others_;
  SetStart start_;
  std::map<std::uint32_t, SetFrame> frames_;  // by ways
  std::deque<Hypothesis> alive_;
  std::deque<SetAnswer> answers_;
  unsigned votes_ = 1;
  std::optional<unsigned> alike_for_accesses_;
};

}  // namespace gpuinfer::infer
