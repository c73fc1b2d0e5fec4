#include "fedmrn/cli/arguments.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "fedmrn/base/failure.h"
#include "fedmrn/base/similar.h"
#include "fedmrn/cli/exit.h"
#include "fedmrn/cli/text.h"

namespace fedmrn::cli {
namespace {

// Set once, by Program.
std::string program_name = "fedmrn";

// Descriptions in lines that fit the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_desc(option);
    const std::optional<TerminalSize> terminal = TerminalOf(STDOUT_FILENO);
    const size_t column = get_column_width();
    if (!terminal || terminal->columns < column + 20) return text;
    return Wrapped(text, std::min<size_t>(terminal->columns, 100) - column - 1);
  }
};

}  // namespace

std::string AsTyped(std::string text) {
  if (program_name == "fedmrn") return text;
  // As a word of a command: FEDMRN_DATA and fedmrn.torch are other words.
  constexpr std::string_view kName = "fedmrn";
  for (size_t at = 0; (at = text.find(kName, at)) != text.npos;) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    const size_t end = at + kName.size();
    if (begins && end < text.size() && text[end] == ' ') {
      text.replace(at, kName.size(), program_name);
      at += program_name.size();
    } else {
      at = end;
    }
  }
  return text;
}

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

void Verb::Footer(const std::string& text) const {
  app_->footer(AsTyped(text));
}

void Verb::Do(std::function<int()> work) const {
  app_->callback([work = std::move(work), exit_code = exit_code_] {
    *exit_code = work();
  });
}

template <typename T>
Argument Verb::AddOption(const std::string& name, T& value,
                         const std::string& help) const {
  return Argument(app_->add_option(name, value, AsTyped(help)));
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
  return Argument(app_->add_flag(name, value, AsTyped(help)));
}

Argument Verb::OnOption(const std::string& name,
                        std::function<void(const std::string&)> then,
                        const std::string& help) const {
  return Argument(
      app_->add_option_function<std::string>(name, then, AsTyped(help))
          ->trigger_on_parse());
}

Argument Verb::OnFlag(const std::string& name, std::function<void()> then,
                      const std::string& help) const {
  return Argument(app_->add_flag_callback(name, std::move(then), AsTyped(help))
                      ->trigger_on_parse());
}

namespace {

// One line: what was wrong, the nearest right word, and where to read on.
std::string Mistake(const CLI::App& program, const CLI::ParseError& error) {
  std::string what = error.what();
  const CLI::App* verb = &program;
  std::string command = program.get_name();
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().front();
    command += " " + verb->get_name();
  }
  const std::vector<std::string> unknown = program.remaining(true);
  if (unknown.empty()) {
    const std::vector<const CLI::App*> verbs =
        verb->get_subcommands([](const CLI::App*) { return true; });
    if (!verbs.empty() && error.get_name() != "RequiresError") {
      what = "say what to do:";
      for (const CLI::App* sub : verbs) what += " " + sub->get_name();
    } else if (error.get_name() == "ArgumentMismatch") {
      what = what.substr(0, what.find(':')) + " needs a value";
    }
    if (what.ends_with('?')) return fmt::format("{}: {}", command, what);
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
                 const std::function<std::string()>& details,
                 const std::string& summary)
    : app_(std::make_unique<CLI::App>(summary, name)) {
  program_name = name;
  app_->formatter(std::make_shared<HelpFormatter>());  // verbs inherit it
  // The flag before the one that looks at it.
  CLI::Option* const json = app_->add_flag(
      "--json", json_, "With --version: every library as well, as JSON");
  const std::string line = name == "fedmrn"
                               ? name + " " + version
                               : name + " (fedmrn " + version + ")";
  json->needs(app_->set_version_flag(
      "--version", [this, line, details] { return json_ ? details() : line; }));
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
    fmt::print(stderr, "{}\n", Mistake(*app_, error));
    return kExitBadInput;
  } catch (const std::exception& error) {
    return Fail(app_->get_name(), ErrorOf(error, ErrorCode::kFailed));
  }
  return exit_code_;
}

}  // namespace fedmrn::cli
