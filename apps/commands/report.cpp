// whisker report: what training did, drawn from the files of its run folder.
#include "apps/terminal/command.h"
#include "core/io/text.h"
#include "train/report/run_report.h"

#include <filesystem>
#include <memory>
#include <string>

namespace whisker {
namespace {

struct ReportArguments {
  std::string run;
  bool force = false;
};

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  CLI::App* report =
      app.add_subcommand("report", "Draw report.html of a run from the files in its folder");
  auto arguments = std::make_shared<ReportArguments>();
  report->add_option("RUN", arguments->run, "The folder of a run of whisker train")->required();
  report->add_flag("--force", arguments->force, "Replace a report.html that was edited");
  set_action(report, invocation, [arguments] {
    const std::filesystem::path page = std::filesystem::path(arguments->run) / "report.html";
    write_run_report(arguments->run, page, arguments->force);
    print_result(printable(page.string()) + "\n");
    return 0;
  });
}

}  // namespace whisker
