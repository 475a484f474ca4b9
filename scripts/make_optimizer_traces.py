#!/usr/bin/env python3
"""Writes tests/optim/optimizer_traces.json: what PyTorch's optimizers and schedules do, in float64.

    python3 scripts/make_optimizer_traces.py tests/optim/optimizer_traces.json     # needs torch (CPU)

The C++ tests replay every trace. Initial parameters and gradients follow the closed formulas below, so that
the file holds only results. Decimals have 9 significant digits.

Parameters, i = 0..6:            p[i] = 0.8 - 0.25 i                       (p[0..6] = 0.8 .. -0.7)
Gradient of step t = 1..10:      g_t[i] = scale[i] sin(0.9 (i + 1) + 0.5 t)
                                 scale = 1, 0.1, 10, 1e-3, 1e-6, 1e-8, 0
The small scales show where epsilon stands; the zero shows what weight decay alone does.

"rate" of a schedule at index t = 0..29 is the learning rate that optimizer step (or epoch) t uses. PyTorch's
scheduler.step() is called after each. A schedule named warmup_X is SequentialLR([LinearLR, X], [W]):
    t < W:    rate = first (s + (1 - s) t / W)       with start factor s and first = X's rate at index 0
    t >= W:   rate = X's rate at index t - W         (X starts from its own index 0 at step W)
first is the base rate, but max_lr / div_factor for one-cycle. Plateau is no function of t alone: metric
m_t is reported after epoch t; warmup_plateau reports nothing during the first W epochs, then m_t of the
epochs W, W + 1, ... A plateau of mode max is told 1 - m_t.
"""
import json
import math
import re
import sys
import warnings

import torch

STEPS = 10
SCHEDULE_STEPS = 30
SCALES = [1.0, 0.1, 10.0, 1e-3, 1e-6, 1e-8, 0.0]

# Keys are the names of torch.optim's arguments; "rates" overrides the learning rate step by step.
OPTIMIZERS = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd_decay": ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    "sgd_momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "sgd_momentum_decay": ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05}),
    "sgd_momentum_falling_rate": (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "rates": [0.1, 0.1, 0.05, 0.05, 0.02, 0.02, 0.01, 0.01, 0.005, 0.0]},
    ),
    "sgd_nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "sgd_nesterov_decay": ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}),
    "adam": ("Adam", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8}),
    "adam_other_betas": ("Adam", {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-4}),
    "adam_decay": ("Adam", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}),
    "adamw": ("AdamW", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}),
    "adamw_falling_rate": (
        "AdamW",
        {
            "lr": 0.1,
            "betas": [0.9, 0.99],
            "eps": 1e-7,
            "weight_decay": 0.1,
            "rates": [0.02, 0.04, 0.06, 0.08, 0.1, 0.08, 0.06, 0.04, 0.02, 0.0],
        },
    ),
    "rmsprop": ("RMSprop", {"lr": 0.01, "alpha": 0.99, "eps": 1e-8}),
    "rmsprop_decay": ("RMSprop", {"lr": 0.01, "alpha": 0.95, "eps": 1e-6, "weight_decay": 0.05}),
    "rmsprop_momentum": ("RMSprop", {"lr": 0.005, "alpha": 0.99, "eps": 1e-8, "momentum": 0.9}),
    "rmsprop_centered": ("RMSprop", {"lr": 0.01, "alpha": 0.99, "eps": 1e-8, "centered": True}),
    "rmsprop_centered_momentum": (
        "RMSprop",
        {"lr": 0.005, "alpha": 0.9, "eps": 1e-6, "centered": True, "momentum": 0.5},
    ),
}

WARMUP = {"warmup_steps": 5, "start_factor": 0.1}
BASE_RATE = 0.1
# Keys are the names of torch.optim.lr_scheduler's arguments.
SCHEDULES = {
    "step": ("StepLR", {"step_size": 7, "gamma": 0.5}),
    "multi_step": ("MultiStepLR", {"milestones": [6, 13, 20], "gamma": 0.2}),
    "exponential": ("ExponentialLR", {"gamma": 0.93}),
    "cosine": ("CosineAnnealingLR", {"T_max": 30, "eta_min": 1e-4}),
    "one_cycle": (
        "OneCycleLR",
        {"max_lr": BASE_RATE, "total_steps": 30, "pct_start": 0.3, "div_factor": 25.0, "final_div_factor": 1e4},
    ),
    "plateau": (
        "ReduceLROnPlateau",
        {"mode": "min", "factor": 0.5, "patience": 2, "threshold": 1e-2, "threshold_mode": "rel",
         "cooldown": 1, "min_lr": 0.02},
    ),
    "plateau_max": (
        "ReduceLROnPlateau",
        {"mode": "max", "factor": 0.5, "patience": 2, "threshold": 1e-2, "threshold_mode": "rel",
         "cooldown": 1, "min_lr": 0.02},
    ),
}
# With a warm-up the rest of the 30 steps belongs to the schedule, so its horizon is 25.
AFTER_WARMUP = {"cosine": {"T_max": 25}, "one_cycle": {"total_steps": 25}}


def rounded(values):
    return [float(f"{v:.9g}") for v in values]


def initial_parameters():
    return torch.tensor([0.8 - 0.25 * i for i in range(7)], dtype=torch.float64)


def gradient(t):
    return torch.tensor([s * math.sin(0.9 * (i + 1) + 0.5 * t) for i, s in enumerate(SCALES)], dtype=torch.float64)


def optimizer_trace(kind, options):
    options = dict(options)
    rates = options.pop("rates", None)
    parameters = torch.nn.Parameter(initial_parameters())
    optimizer = getattr(torch.optim, kind)([parameters], foreach=False, **options)
    trace = []
    for t in range(1, STEPS + 1):
        if rates:
            optimizer.param_groups[0]["lr"] = rates[t - 1]
        parameters.grad = gradient(t)
        optimizer.step()
        trace.append(rounded(parameters.tolist()))
    return trace


def plateau_metric(t):
    """Falls, stalls above the threshold, falls again, then rises until the lowest rate holds."""
    if t < 6:
        return 1.0 - 0.1 * t
    if t < 13:
        return 0.5 - 0.001 * (t - 6)
    if t < 18:
        return 0.45 - 0.03 * (t - 13)
    return 0.33 + 0.01 * (t - 18)


def schedule_rates(kind, options, warmup):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE_RATE)
    schedulers = torch.optim.lr_scheduler
    plateau = kind == "ReduceLROnPlateau"
    before = warmup["warmup_steps"] if warmup else 0
    if not warmup:
        scheduler = getattr(schedulers, kind)(optimizer, **options)
    elif plateau:
        ramp = schedulers.LinearLR(optimizer, start_factor=warmup["start_factor"], total_iters=before)
        scheduler = schedulers.ReduceLROnPlateau(optimizer, **options)
    else:
        ramp = schedulers.LinearLR(optimizer, start_factor=warmup["start_factor"], total_iters=before)
        main = getattr(schedulers, kind)(optimizer, **options)
        scheduler = schedulers.SequentialLR(optimizer, [ramp, main], milestones=[before])
    rates = []
    for t in range(SCHEDULE_STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if not plateau:
            scheduler.step()
        elif t < before:
            ramp.step()
        else:
            scheduler.step(1 - plateau_metric(t) if options["mode"] == "max" else plateau_metric(t))
    return rounded(rates)


def clipping():
    first = torch.tensor([3.0, -4.0, 0.5], dtype=torch.float64)
    second = torch.tensor([12.0, 0.0, -0.25, 1.0], dtype=torch.float64)
    cases = []
    for max_norm in (1.0, 5.0, 20.0):
        parameters = [torch.nn.Parameter(torch.zeros_like(v)) for v in (first, second)]
        parameters[0].grad, parameters[1].grad = first.clone(), second.clone()
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=False)
        cases.append({"max_norm": max_norm, "norm": rounded([norm.item()])[0],
                      "clipped": [rounded(p.grad.tolist()) for p in parameters]})
    by_value = []
    for limit in (0.75, 4.0):
        parameters = [torch.nn.Parameter(torch.zeros_like(v)) for v in (first, second)]
        parameters[0].grad, parameters[1].grad = first.clone(), second.clone()
        torch.nn.utils.clip_grad_value_(parameters, limit, foreach=False)
        by_value.append({"limit": limit, "clipped": [rounded(p.grad.tolist()) for p in parameters]})
    return {"gradients": [first.tolist(), second.tolist()], "by_norm": cases, "by_value": by_value}


def ema_trace(decay):
    """Average of sgd_momentum's weights: starts as a copy of the initial parameters, updated after each step."""
    parameters = torch.nn.Parameter(initial_parameters())
    average = [initial_parameters()]
    optimizer = torch.optim.SGD([parameters], foreach=False, **OPTIMIZERS["sgd_momentum"][1])
    update = torch.optim.swa_utils.get_ema_multi_avg_fn(decay)
    trace = []
    for t in range(1, STEPS + 1):
        parameters.grad = gradient(t)
        optimizer.step()
        update(average, [parameters.detach()], t)
        trace.append(rounded(average[0].tolist()))
    return {"decay": decay, "optimizer": "sgd_momentum", "trace": trace}


def main(path):
    warnings.simplefilter("ignore")
    result = {
        "made_by": "scripts/make_optimizer_traces.py",
        "torch": torch.__version__.split("+")[0],
        "steps": STEPS,
        "initial": rounded(initial_parameters().tolist()),
        "gradient_scales": SCALES,
        "first_gradient": rounded(gradient(1).tolist()),
        "optimizers": {},
        "schedules": {},
        "plateau_metrics": rounded(plateau_metric(t) for t in range(SCHEDULE_STEPS)),
        "clipping": clipping(),
        "ema": ema_trace(0.9),
    }
    for name, (kind, options) in OPTIMIZERS.items():
        result["optimizers"][name] = {"kind": kind, "options": options, "trace": optimizer_trace(kind, options)}
    for name, (kind, options) in SCHEDULES.items():
        result["schedules"][name] = {"kind": kind, "base_rate": BASE_RATE, "options": options,
                                     "rates": schedule_rates(kind, options, None)}
        options = options | AFTER_WARMUP.get(name, {})
        result["schedules"]["warmup_" + name] = {"kind": kind, "base_rate": BASE_RATE, "options": options,
                                                 "warmup": WARMUP, "rates": schedule_rates(kind, options, WARMUP)}
    text = json.dumps(result, indent=1)
    # One row of numbers per line: readable, and small in diffs.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
