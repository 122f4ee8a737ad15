# SPDX-License-Identifier: MIT
"""The softmax regression of bench_columns.py by PyTorch.

    {"train": CSV, "test": CSV, "optimizer": NAME, "rate": R, "steps": N, "normalize": true}

gives the accuracy on the test rows.
"""
import numpy
import torch

import questions

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam,
              "adagrad": lambda *words, lr: torch.optim.Adagrad(*words, lr=lr, initial_accumulator_value=0.1)}


def loaded(path):
    data = numpy.loadtxt(path, delimiter=",", skiprows=1, dtype=numpy.float32)
    return torch.from_numpy(data[:, 1:].copy()), torch.from_numpy(data[:, 0].astype(numpy.int64))


def answer(train, test, optimizer, rate, steps, normalize):
    torch.manual_seed(1)
    (x, y), (test_x, test_y) = loaded(train), loaded(test)
    if normalize:
        mean, deviation = x.mean(0), x.std(0, unbiased=False)
        x, test_x = (x - mean) / deviation, (test_x - mean) / deviation
    model = torch.nn.Linear(x.shape[1], 3)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    chosen = OPTIMIZERS[optimizer](model.parameters(), lr=rate)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(order) < 50:
            order = torch.cat([order, torch.randperm(len(x))])
        part, order = order[:50], order[50:]
        chosen.zero_grad()
        torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        chosen.step()
    right = (model(test_x).argmax(1) == test_y).float().mean()
    return {"accuracy": float(right)}


if __name__ == "__main__":
    questions.answer_with(answer)
