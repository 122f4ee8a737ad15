# SPDX-License-Identifier: MIT
"""The classic job of bench_trainer.py, 784-100-10 with Adagrad on batches of 100, by PyTorch and by numpy, all data in
memory as floats.

    {"how": NAME, "threads": N, "path": CSV, "rows": N, "optimizer": "adagrad" or "adam", "seconds": S}

gives steps a second. PyTorch's: `plain`, `foreach` and `fused` are Adagrad's implementations; `compile` compiles model
and loss and takes the fused one; `compile all` is the whole step, gradient and update written out for the compiler.
numpy's is written out too, and so are the others' batches: one gather of rows a step. `compile all` and numpy know
Adagrad alone. PyTorch takes denormals as zeros, as we do.
"""
import functools
import time

import numpy

import questions

try:
    import torch
except ImportError:  # then numpy alone is asked for
    torch = None

RATE, START = 0.01, 0.1
SIZES = ((784, 100), (100,), (100, 10), (10,))


@functools.lru_cache
def loaded(path, rows):
    with open(path, encoding="ascii") as lines:
        text = ",".join(next(lines).strip() for _ in range(rows))
    data = numpy.fromstring(text, dtype=numpy.float32, sep=",").reshape(rows, 785)
    return data[:, 1:] / 255, data[:, 0].astype(numpy.int64)


def parameters():
    dice = numpy.random.default_rng(1)
    return [dice.normal(0, 0.05, size).astype(numpy.float32) for size in SIZES]


def numpy_step():
    weights = parameters()
    sums = [numpy.full_like(weight, START) for weight in weights]

    def step(x, y):
        w1, b1, w2, b2 = weights
        hidden = numpy.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        share = numpy.exp(logits - logits.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        share[numpy.arange(len(y)), y] -= 1
        back = share @ w2.T * (hidden > 0)
        for weight, total, gradient in zip(weights, sums, (x.T @ back, back.sum(0), hidden.T @ share, share.sum(0))):
            total += gradient * gradient
            weight -= RATE * gradient / numpy.sqrt(total)
    return step


def written_out():
    """The same in PyTorch, as one function that a compiler sees whole."""
    weights = [torch.from_numpy(weight) for weight in parameters()]
    sums = [torch.full_like(weight, START) for weight in weights]

    def step(x, y):
        w1, b1, w2, b2 = weights
        hidden = torch.relu(torch.addmm(b1, x, w1))
        share = torch.softmax(torch.addmm(b2, hidden, w2), 1) - torch.nn.functional.one_hot(y, 10)
        back = (share @ w2.T) * (hidden > 0)
        for weight, total, gradient in zip(weights, sums, (x.T @ back, back.sum(0), hidden.T @ share, share.sum(0))):
            total.addcmul_(gradient, gradient)
            weight.addcdiv_(gradient, total.sqrt(), value=-RATE)
    return torch.no_grad()(torch.compile(step))


def torch_step(how, optimizer):
    if how == "compile all":
        return written_out()
    model = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    criterion = torch.nn.CrossEntropyLoss(reduction="sum")
    options = {"plain": {"foreach": False}, "foreach": {"foreach": True}}.get(how, {"fused": True})
    if optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE / 10, **options)
    else:
        optimizer = torch.optim.Adagrad(model.parameters(), lr=RATE, initial_accumulator_value=START, **options)
    loss = lambda x, y: criterion(model(x), y)
    loss = torch.compile(loss) if how == "compile" else loss

    def step(x, y):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    return step


@functools.lru_cache
def prepared(how, threads, path, rows, optimizer):
    """(step, x, y, order): what is compiled is compiled once."""
    x, y = loaded(path, rows)
    if how == "numpy":
        step, gathered = numpy_step(), lambda part: step(x.take(part, 0), y.take(part))
        parts = numpy.random.default_rng(1).permutation(rows).reshape(-1, 100)
    else:
        x, y = torch.from_numpy(x), torch.from_numpy(y)
        step, gathered = torch_step(how, optimizer), lambda part: step(x.index_select(0, part), y.index_select(0, part))
        parts = torch.randperm(rows).split(100)
    for part in parts[:20]:
        gathered(part)
    return gathered, parts


def answer(how, threads, path, rows, optimizer, seconds):
    if torch:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
    step, parts = prepared(how, threads, path, rows, optimizer)
    begin, steps = time.perf_counter(), 0
    while not steps or time.perf_counter() - begin < seconds:
        for part in parts:
            step(part)
        steps += len(parts)
    return {"rate": steps / (time.perf_counter() - begin), "steps": steps}


if __name__ == "__main__":
    questions.answer_with(answer)
