// The device that a command computes on, where no run's log says why.
#pragma once

#include "apps/command.h"
#include "core/device.h"

#include <string>

namespace whisker {

/// As choose_device(), whose note goes to stderr, unless that is to be quiet.
Device chosen_device(const std::string& text, const Invocation& invocation);

}  // namespace whisker
