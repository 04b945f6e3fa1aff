// tombolo demo: the whole path on one machine, from detection to a trained model.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "tools/cli/command.h"
#include "tools/demo/environment.h"
#include "tools/demo/interrupt.h"
#include "tools/demo/report.h"
#include "tools/demo/results.h"
#include "tools/demo/steps.h"
#include "tools/demo/text.h"
#include "tools/launch/launcher.h"

namespace tombolo::tools {
namespace {

using DemoOptions = demo::Options;
using demo::Report;

constexpr const char* kDemoHelp =
    "Two clusters of two hosts each are emulated on this machine. Every host has a fast NIC that reaches\n"
    "only its own cluster (declared InfiniBand in one, RoCE in the other) and an Ethernet one that reaches\n"
    "all hosts, as fast beside this machine's computing as in the clusters that Holmes was measured on.\n"
    "Tombolo finds the NICs, measures the links, plans, and trains a GPT three ways: as one communicator\n"
    "would today, with the transport chosen per peer, and with the placement planned too. Then it trains on\n"
    "with the fastest and writes a page with all that it measured. Needs no root where user namespaces are\n"
    "permitted, and else emulates on loopback.\n"
    "\nExamples:\n"
    "  tombolo demo\n"
    "  tombolo demo --data book.txt --steps 400 --out results\n"
    "  tombolo demo --json | jq .speedup\n"
    "\nExit codes: 0 done, 1 a step failed, 2 bad options, 130 interrupted (nothing is left behind).";

constexpr int kSteps = 9;

int run_steps(const DemoOptions& options, demo::Screen& screen, const demo::InterruptWatch& interrupts) {
  Deadline deadline = Deadline::after(from_seconds(options.limit()));
  demo::Results results(options.out);
  Report report;
  report.environment = demo::describe_environment();

  screen.step("Measuring how fast this machine computes");
  demo::measure_computing(options, screen, report);
  interrupts.check();

  screen.step("Emulating two clusters of two hosts");
  auto emulation = emulation::Emulation::start(emulation::Spec::from_text(report.rates.emulation()),
                                               {emulation::parse_mode(options.emulation_mode), {}});
  report.environment.emulation = std::string(emulation::mode_name(emulation->mode()));
  if (emulation->mode() == emulation::Mode::kLoopback)
    report.environment.emulation_reason = emulation->description();
  screen.say(emulation->description());
  demo::Session session{options, screen, interrupts, *emulation, deadline};

  screen.step("Fetching the text to learn from");
  demo::Text text = demo::make_text(options, emulation->directory(), deadline.remaining());
  interrupts.check();
  report.data = text.source;
  report.data_bytes = text.bytes;
  screen.line("{}, {}", text.source, format_size(static_cast<std::uint64_t>(text.bytes)));

  screen.step("Detecting the NICs of every host");
  demo::detect(session);

  screen.step("Measuring the links");
  demo::probe(session, report);

  screen.step("Planning the same job three ways");
  // A launcher that does not know the clusters may assign ranks to them alternately: A B A B.
  auto rank_hosts = map_ranks("interleaved", report.cluster.hosts, 4);
  demo::plan(session, rank_hosts, report);
  if (options.more_plans) demo::plan_more(session, rank_hosts, report);

  screen.step("Training the same steps in each of the three ways");
  demo::compare(session, rank_hosts, text.path, report);

  screen.step("Training on in the fastest way");
  std::string weights = session.file("model.bin");
  demo::train_on(session, rank_hosts, text.path, weights, report);

  screen.step("Writing the report");
  interrupts.check();
  report.environment.demo_seconds = screen.elapsed_seconds();
  report.files = demo::Results::names();
  results.write(report, session);
  screen.say(results.listing());
  screen.say("\n" + demo::summary(report));
  if (options.json) fmt::print("{}\n", report.to_json().dump(1));
  return kExitOk;
}

int run_demo(const DemoOptions& options) {
  options.check();
  demo::InterruptWatch interrupts;
  demo::Screen screen(options.json ? stderr : stdout, kSteps);
  try {
    return run_steps(options, screen, interrupts);
  } catch (const demo::Interrupted& interrupted) {
    screen.say("interrupted; the emulated hosts and everything on them are gone");
    return interrupted.exit_code();
  } catch (const Error&) {
    // An error that a signal has caused is reported as the interrupt.
    try {
      interrupts.check();
    } catch (const demo::Interrupted& interrupted) {
      return interrupted.exit_code();
    }
    throw;
  }
}

}  // namespace

void add_demo(CommandLine& tombolo) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App& app = tombolo.add("demo", "From detection to a trained model, on two emulated clusters",
                              kDemoHelp, [options] { return run_demo(*options); });
  app.add_option("--data", options->data,
                 "Text to learn from [the King James Bible of Debian's bible-kjv package]");
  app.add_option("--out", options->out, "Folder for the results")->capture_default_str();
  app.add_option("--compare-steps", options->compare_steps,
                 "At least so many training steps in each of the three ways; default: 12 to 30, what half a "
                 "minute allows");
  app.add_option("--steps", options->steps,
                 "Training steps with the fastest of the three; default: 40 to 200, what 20 seconds allow");
  app.add_option_function<std::string>(
      "--ethernet",
      [options](const std::string& rate) { options->ethernet = parse_bit_rate(rate, "--ethernet"); },
      "Rate of the Ethernet links, \"100mbit\"; default: it follows from how fast this machine computes");
  app.add_flag("--more-plans", options->more_plans,
               "Also hold the predictions for five other plans of the same job against measurement (eight "
               "minutes more)");
  app.add_option("--seconds-limit", options->seconds_limit,
                 "Give up after so many seconds; default: 600, with --more-plans 1800");
  app.add_option("--emulation-mode", options->emulation_mode,
                 "auto: namespaces where permitted, else loopback; or one of the two")
      ->check(CLI::IsMember({"auto", "namespaces", "loopback"}))
      ->capture_default_str();
  app.add_flag("--json", options->json,
               "Print report.json at the end, and everything else on standard error");
}

}  // namespace tombolo::tools
