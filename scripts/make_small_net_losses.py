#!/usr/bin/env python3
"""Prints the ten losses of tests/core/ops/small_net_test.cpp as PyTorch computes them, in float64.

    python3 scripts/make_small_net_losses.py        # needs torch (CPU)

32 images of 8 x 8 x 3 and a small net; data and initial values follow closed formulas over the
row-major index i in Whisker's layouts (NHWC images, filters (c_out, kernel_h, kernel_w, c_in)):

    images        sin(0.7 i i)        labels    (5 n + n n) mod 4
    w1 (6,3,3,3)  0.2 sin(1.1 i + 0.3)  b1 (6)    0.05 cos(i)
    gamma (6)     1                     beta (6)  0
    w2 (8,3,3,6)  0.15 sin(1.7 i)       b2 (8)    0.05 sin(i)
    w3 (4,32)     0.3 sin(2.3 i)        b3 (4)    0

conv 3x3 (padding 1) - batch norm - relu - max pool 2 - conv 3x3 (padding 1) - relu - average pool 2
- flatten (H,W,C) - dense 4 - cross entropy; SGD, learning rate 0.1, momentum 0.9.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def filled(shape, formula):
    count = 1
    for extent in shape:
        count *= extent
    return formula(torch.arange(count, dtype=torch.float64)).reshape(shape)


images = filled((32, 8, 8, 3), lambda i: torch.sin(0.7 * i * i)).permute(0, 3, 1, 2)
n = torch.arange(32)
labels = (5 * n + n * n) % 4
w1 = filled((6, 3, 3, 3), lambda i: 0.2 * torch.sin(1.1 * i + 0.3)).requires_grad_()
b1 = filled((6,), lambda i: 0.05 * torch.cos(i)).requires_grad_()
gamma = torch.ones(6).requires_grad_()
beta = torch.zeros(6).requires_grad_()
w2 = filled((8, 3, 3, 6), lambda i: 0.15 * torch.sin(1.7 * i)).requires_grad_()
b2 = filled((8,), lambda i: 0.05 * torch.sin(i)).requires_grad_()
w3 = filled((4, 32), lambda i: 0.3 * torch.sin(2.3 * i)).requires_grad_()
b3 = torch.zeros(4).requires_grad_()
optimizer = torch.optim.SGD([w1, b1, gamma, beta, w2, b2, w3, b3], lr=0.1, momentum=0.9)

for step in range(10):
    y = F.conv2d(images, w1.permute(0, 3, 1, 2), b1, padding=1)
    y = F.relu(F.batch_norm(y, None, None, gamma, beta, training=True))
    y = F.max_pool2d(y, 2)
    y = F.relu(F.conv2d(y, w2.permute(0, 3, 1, 2), b2, padding=1))
    y = F.avg_pool2d(y, 2).permute(0, 2, 3, 1).reshape(32, 32)
    loss = F.cross_entropy(F.linear(y, w3, b3), labels)
    print(f"{loss.item():.12f},")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
