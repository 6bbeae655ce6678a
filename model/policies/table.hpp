// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include "model/policies/alternating.hpp"
#include "model/policies/automaton.hpp"
#include "model/policies/bip.hpp"
#include "model/policies/brrip.hpp"
#include "model/policies/clock.hpp"
#include "model/policies/favoured_fifo.hpp"
#include "model/policies/fermi.hpp"
#include "model/policies/fifo.hpp"
#include "model/policies/lip.hpp"
#include "model/policies/lru.hpp"
#include "model/policies/mru.hpp"
#include "model/policies/nru.hpp"
#include "model/policies/permutation.hpp"
#include "model/policies/plru.hpp"
#include "model/policies/qlru.hpp"
#include "model/policies/random.hpp"
#include "model/policies/resetting_slru.hpp"
#include "model/policies/set_duelling.hpp"
#include "model/policies/slru.hpp"
#include "model/policies/srrip.hpp"
#include "model/policies/weighted_random.hpp"
#include "model/printable.hpp"

namespace gpuinfer::model {

// Every policy there is, in the order of `gpuinfer list policies`; of policies that behave alike the first one lends
// the name. A new policy is its file and a line here.
using AllPolicies = std::tuple<  //
    Lru,                         //
    Fifo,                        //
    Lip,                         //
    Bip,                         //
    Plru,                        //
    Nru,                         //
    Mru,                         //
    Slru,                        //
    ResettingSlru,               //
    Clock,                       //
    Srrip,                       //
    Brrip,                       //
    Qlru,                        //
    Permutation,                 //
    RandomPolicy,                //
    Fermi,                       //
    FavouredFifo,                //
    WeightedRandom,              //
    Automaton,                   //
    SetDuelling,                 //
    Alternating>;

// Calls visitor.operator()<Policy>() for each policy.
template <class Visitor>
void for_each_policy(Visitor&& visitor) {
  [&]<class... Policy>(std::tuple<Policy...>*) {
    (visitor.template operator()<Policy>(), ...);
  }(static_cast<AllPolicies*>(nullptr));
}

// Calls visitor.operator()<Policy>() for the policy of that name; throws InputError where there is none.
template <class Visitor>
void with_policy(std::string_view name, Visitor&& visitor) {
  bool found = false;
  std::string known;
  for_each_policy([&]<class Policy>() {
    known += (known.empty() ? "" : ", ") + std::string(Policy::name);
    if (Policy::name == name) {
      found = true;
      visitor.template operator()<Policy>();
    }
  });
  if (!found) {
    throw LeafError("policy", "`" + printable(std::string(name)) + "` is not known; known are " + known);
  }
}

}  // namespace gpuinfer::model
