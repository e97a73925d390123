#include <catch2/catch.hpp>
#include <limits>

#include "../errors.h"
#include "optimizer/catalogue.h"

using namespace tutti;
using namespace tutti::optimizer;
using Catch::Matchers::Contains;

TEST_CASE("an unknown optimizer is an error that lists the known ones and says what else to do") {
  const std::string text = text_of(ErrorCode::invalid_argument, [] { choose({.name = "adm"}); });
  CHECK_THAT(text, Contains("'adm' is not known, did you mean 'adam'?"));
  CHECK_THAT(text, Contains("known: sgd, nag, adam, adamw, adagrad, rmsprop, lamb"));
  CHECK_THAT(text, Contains("update the weights in the program"));
}

TEST_CASE("a parameter that the rule does not have is an error that lists those it has") {
  const std::string text = text_of(ErrorCode::invalid_argument, [] {
    choose({.name = "sgd", .parameters = {{"momentun", 0.9}}});
  });
  CHECK(text ==
        "optimizer 'sgd' has no parameter 'momentun', did you mean 'momentum'? (it has: "
        "learning_rate, wd, rescale_grad, clip_gradient, multi_precision, momentum, nesterov)");
}

TEST_CASE("a parameter out of its range is an error that says the range") {
  struct Bad {
    const char* name;
    double value;
    const char* text;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [name, value, text] : {
           Bad{"learning_rate", -1,
               "learning_rate is -1, and must be a finite number of 0 or more"},
           Bad{"learning_rate", infinity, "learning_rate is inf, and must be a finite number"},
           Bad{"wd", nan, "wd is nan, and must be a finite number of 0 or more"},
           Bad{"rescale_grad", nan, "rescale_grad is nan, and must be a finite number"},
           Bad{"multi_precision", 0.5, "multi_precision is 0.5, and must be 0 or 1"},
           Bad{"beta1", 1, "beta1 is 1, and must be a number from 0 to below 1"},
           Bad{"beta2", nan, "beta2 is nan, and must be a number from 0 to below 1"},
           Bad{"epsilon", -1e-8, "epsilon is -1e-08, and must be a finite number of 0 or more"},
       }) {
    CHECK_THAT(text_of(ErrorCode::invalid_argument,
                       [name = name, value = value] {
                         choose({.name = "adam", .parameters = {{name, value}}});
                       }),
               Contains(text));
  }
}

TEST_CASE("a rule has MXNet's learning rate unless it is given one") {
  CHECK(choose({.name = "sgd"}).learning_rate == 0.01);
  CHECK(choose({.name = "adam"}).learning_rate == 0.001);
  CHECK(choose({.name = "adam", .parameters = {{"learning_rate", 0.5}}}).learning_rate == 0.5);
}
