#include "fedmrn/cli/arguments.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <utility>

#include "fedmrn/base/similar.h"
#include "fedmrn/cli/exit.h"

namespace fedmrn::cli {

Argument Argument::Required() const { return Argument(option_->required()); }

Argument Argument::Between(int least, int most) const {
  return Argument(option_->check(CLI::Range(least, most)));
}

Argument Argument::Positive() const {
  return Argument(option_->check(CLI::PositiveNumber));
}

Argument Argument::OneOf(const std::vector<std::string>& choices) const {
  return Argument(option_->check(CLI::IsMember(choices)));
}

Argument Argument::Check(
    std::function<std::string(const std::string&)> refuse) const {
  return Argument(option_->check(std::move(refuse)));
}

Argument Argument::OneEach() const {
  return Argument(option_->allow_extra_args(false));
}

Argument Argument::Type(const std::string& type) const {
  return Argument(option_->type_name(type));
}

Argument Argument::Text(const std::string& text) const {
  return Argument(option_->option_text(text));
}

Argument Argument::ShowDefault() const {
  return Argument(option_->capture_default_str());
}

Argument Argument::Group(const std::string& heading) const {
  return Argument(option_->group(heading));
}

Verb Verb::AddVerb(const std::string& name, const std::string& summary) const {
  return Verb(app_->add_subcommand(name, summary), exit_code_);
}

void Verb::NeedsVerb() const { app_->require_subcommand(1); }

void Verb::Footer(const std::string& text) const { app_->footer(text); }

void Verb::Do(std::function<int()> work) const {
  app_->callback([work = std::move(work), exit_code = exit_code_] {
    *exit_code = work();
  });
}

template <typename T>
Argument Verb::AddOption(const std::string& name, T& value,
                         const std::string& help) const {
  return Argument(app_->add_option(name, value, help));
}
template Argument Verb::AddOption(const std::string&, int&,
                                  const std::string&) const;
template Argument Verb::AddOption(const std::string&, uint32_t&,
                                  const std::string&) const;
template Argument Verb::AddOption(const std::string&, uint64_t&,
                                  const std::string&) const;
template Argument Verb::AddOption(const std::string&, double&,
                                  const std::string&) const;
template Argument Verb::AddOption(const std::string&, std::string&,
                                  const std::string&) const;
template Argument Verb::AddOption(const std::string&, std::vector<std::string>&,
                                  const std::string&) const;

Argument Verb::AddFlag(const std::string& name, bool& value,
                       const std::string& help) const {
  return Argument(app_->add_flag(name, value, help));
}

Argument Verb::OnOption(const std::string& name,
                        std::function<void(const std::string&)> then,
                        const std::string& help) const {
  return Argument(app_->add_option_function<std::string>(name, then, help)
                      ->trigger_on_parse());
}

Argument Verb::OnFlag(const std::string& name, std::function<void()> then,
                      const std::string& help) const {
  return Argument(
      app_->add_flag_callback(name, std::move(then), help)->trigger_on_parse());
}

namespace {

// One line: what was wrong, the nearest right word, and where to read on.
std::string Mistake(const CLI::App& program, const std::string& what) {
  const CLI::App* verb = &program;
  std::string command = program.get_name();
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().front();
    command += " " + verb->get_name();
  }
  const std::vector<std::string> unknown = program.remaining(true);
  if (unknown.empty()) {
    return fmt::format("{}: {}; {} --help says more", command, what, command);
  }
  std::string given = unknown.front();
  const bool flag = given.starts_with("-");
  if (flag) given = given.substr(0, given.find('='));
  std::vector<std::string> names;
  if (flag) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  } else {
    for (const CLI::App* sub : verb->get_subcommands(nullptr)) {
      names.push_back(sub->get_name());
    }
  }
  const char* kind = flag ? "flag" : names.empty() ? "word" : "verb";
  const std::string nearest = DidYouMean(given, {names.begin(), names.end()});
  return fmt::format(
      "{}: unknown {} {}{}", command, kind, given,
      nearest.empty() ? fmt::format("; {} --help lists what there is", command)
                      : nearest);
}

}  // namespace

Program::Program(const std::string& name, const std::string& version,
                 const std::string& summary)
    : app_(std::make_unique<CLI::App>(summary, name)) {
  app_->set_version_flag("--version", name + " " + version);
  app_->require_subcommand(0, 1);  // none: says so below, naming stray words
}

Program::~Program() = default;

int Program::Run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    if (app_->get_subcommands().empty()) {
      fmt::print(stderr, "{}: say what to do\n{}", app_->get_name(),
                 app_->help());
      return kExitBadInput;
    }
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app_->exit(error);
      return kExitOk;
    }
    fmt::print(stderr, "{}\n", Mistake(*app_, error.what()));
    return kExitBadInput;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app_->get_name(), error.what());
    return kExitFailed;
  }
  return exit_code_;
}

}  // namespace fedmrn::cli
