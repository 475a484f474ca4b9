// whisker report: what training did, drawn from the files of run folders.
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/terminal.h"
#include "core/io/outputs.h"
#include "core/io/text.h"
#include "train/report/run_report.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace whisker {
namespace {

constexpr OutputFormat report_format{.name = "a page of whisker report", .is_own = is_run_report};

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;
  bool force = false;
};

void write_elsewhere(const ReportArguments& arguments, const Invocation& invocation) {
  Outputs outputs = make_outputs("report", arguments.force, invocation);
  for (const std::string& run : arguments.runs) {
    outputs.add_input(std::filesystem::path(run) / "config.yaml");
  }
  const auto file = outputs.open("-o", arguments.out, report_format);
  file->write(arguments.runs.size() == 1
                  ? run_report(read_run_record(arguments.runs[0]))
                  : run_comparison({arguments.runs.begin(), arguments.runs.end()}));
  outputs.commit(*file, "-o", report_format);
}

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  CLI::App* report =
      app.add_subcommand("report", "Draw report.html of a run, or compare runs on one page");
  auto arguments = std::make_shared<ReportArguments>();
  report->add_option("RUN", arguments->runs, "Folders of runs of whisker train")->required();
  report->add_option("-o,--out", arguments->out, "HTML file; of one run its report.html");
  report->add_flag("--force", arguments->force, "Replace another file, or a page that was edited");
  set_action(report, invocation, [&invocation, arguments] {
    if (arguments->runs.size() > 1 && arguments->out.empty()) {
      fail(ErrorKind::usage, "report: a comparison of {} runs goes to a file: add -o FILE.html.",
           arguments->runs.size());
    }
    if (arguments->out.empty()) {
      const std::filesystem::path page = std::filesystem::path(arguments->runs[0]) / "report.html";
      write_run_report(arguments->runs[0], page, arguments->force);
      arguments->out = page.string();
    } else {
      write_elsewhere(*arguments, invocation);
    }
    print_result(printable(arguments->out) + "\n");
    return 0;
  });
}

}  // namespace whisker
