#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/command.h"
#include "cli/progress.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

void print_plan(const PlanReport& plan, const Arguments& arguments) {
  if (arguments.json == "-") {
    // Prints nothing else, so that another program can read the JSON from a pipe.
    print(plan.json);
    return;
  }
  if (!arguments.json.empty()) {
    errno = 0;
    std::ofstream file(arguments.json);
    file << plan.json;
    if (!file.flush()) {
      throw Error(ErrorCode::kDevice, "--json " + arguments.json +
                                          ": cannot write the file: " + std::strerror(errno) +
                                          "; check the path, its permissions and the disk");
    }
  }
  print(plan.table + plan.savings);
  if (arguments.modules) print("\n" + plan.modules);
  if (arguments.why) print("\n" + plan.why);
}

bool show_and_start(Trainer& trainer, const Arguments& arguments, Remarks& remarks) {
  say(trainer.device_line());
  remarks.say_now();
  for (const std::string& line : trainer.description()) say(line);
  say_all(trainer.plan().warnings, trainer.plan().notes);
  print_plan(trainer.plan(), arguments);
  if (arguments.dry_run) {
    // Refuses before it takes anything: the same plan, the same words as a run's.
    if (!trainer.plan().fits) throw Error(ErrorCode::kWillNotFit, trainer.plan().refusal);
    return false;
  }
  const std::string loaded = trainer.start();
  if (!loaded.empty()) say(loaded);
  trainer.add_callback(std::make_shared<Progress>(is_terminal() && !arguments.disable_tqdm.value_or(false),
                                                  trainer.plan().total_bytes));
  return true;
}

}  // namespace plimsoll::cli
