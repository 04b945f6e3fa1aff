// How a mixture's router turns scores into a choice of experts.
#pragma once

namespace tombolo::planner {

/// The defaults are Mixtral's: each token goes to the experts of the highest scores, weighted by the softmax
/// of these scores alone. None of it changes what a step takes; frameworks have to be told, or another model
/// is trained.
struct Router {
  bool sigmoid = false;        ///< scores through a sigmoid each, their sum made 1; else through a softmax
  bool all_scores = false;     ///< the softmax is over all experts' scores, before the choice
  bool expert_biases = false;  ///< added to the scores for the choice alone, to keep experts equally busy
  int groups = 0;              ///< of experts, of which a token's are from few; 0 = all are one
  int groups_per_token = 0;    ///< from how many of them
  double scale = 1;            ///< of the chosen experts' weights

  friend bool operator==(const Router&, const Router&) = default;
};

}  // namespace tombolo::planner
