"""Muon against the singular values, and against `torch.optim.Muon`."""

import numpy as np
import pytest
import torch

from viz_model.training.muon import Muon, orthogonalise

SHAPES = [(8, 8), (24, 8), (8, 24), (96, 24), (64, 64)]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def of_singular_values(matrix):
    """The same in float64: five times a·s + b·s³ + c·s⁵ of each singular value (Jordan et al. 2024)."""
    left, values, right = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    values = values / np.sqrt((values**2).sum())
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return (left * values) @ right, values


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_singular_values_become_about_one_and_directions_stay(shape, size):
    matrices = drawn(3, *shape) * size
    found = orthogonalise(matrices)
    assert found.shape == matrices.shape
    for matrix, result in zip(matrices, found, strict=True):
        expected, values = of_singular_values(matrix)
        np.testing.assert_allclose(result, expected, atol=2e-4)
        ours = np.linalg.svd(result.double().numpy(), compute_uv=False)
        np.testing.assert_allclose(np.sort(ours), np.sort(values), atol=2e-4)
        # Values far below the largest are still on their way up after five steps, so a square one has a few.
        assert ours.max() < 1.25
        assert np.median(ours) > 0.65
        if shape[0] != shape[1]:
            assert ours.min() > 0.65


def test_each_matrix_of_a_stack_is_for_itself_and_zero_stays_zero():
    matrices = torch.stack((drawn(6, 9), torch.zeros(6, 9), drawn(6, 9, seed=1) * 100))
    found = orthogonalise(matrices)
    for matrix, result in zip(matrices, found, strict=True):
        torch.testing.assert_close(result, orthogonalise(matrix[None])[0], atol=1e-5, rtol=1e-5)
    assert (found[1] == 0).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_torch(shape, weight_decay):
    ours, theirs = (torch.nn.Parameter(drawn(*shape)) for _ in range(2))
    options = {"lr": 0.02, "momentum": 0.95, "weight_decay": weight_decay}
    one, other = Muon([ours], **options), torch.optim.Muon([theirs], nesterov=True, **options)
    for step in range(4):
        before = ours.detach().clone()
        ours.grad, theirs.grad = (drawn(*shape, seed=10 + step) for _ in range(2))
        one.step()
        other.step()
        moved = (ours - before).norm()
        assert (ours - theirs).norm() < 0.03 * (step + 1) * moved  # it orthogonalises in bfloat16


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_in_bfloat16_are_torchs(shape):
    ours, theirs = (torch.nn.Parameter(drawn(*shape)) for _ in range(2))
    options = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.0}
    one, other = Muon([ours], bfloat16=True, **options), torch.optim.Muon([theirs], nesterov=True, **options)
    before = ours.detach().clone()
    ours.grad, theirs.grad = (drawn(*shape, seed=10) for _ in range(2))
    one.step()
    other.step()
    exact = torch.nn.Parameter(before.clone())
    exact.grad = ours.grad
    Muon([exact], **options).step()
    assert (ours - theirs).norm() < 0.1 * (ours - before).norm()  # theirs takes each matrix by itself
    assert 0 < (ours - exact).norm() < 0.1 * (ours - before).norm()
    assert ours.dtype == torch.float32


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_exactly_those_of_the_formula(shape):
    matrix = torch.nn.Parameter(drawn(*shape))
    optimizer = Muon([matrix], lr=0.03, momentum=0.9, weight_decay=0.2)
    expected, momentum = matrix.detach().double().numpy(), np.zeros(shape)
    for step in range(3):
        gradient = drawn(*shape, seed=20 + step)
        matrix.grad = gradient.clone()
        optimizer.step()
        gradient = gradient.double().numpy()
        momentum = 0.9 * momentum + 0.1 * gradient
        ahead, _ = of_singular_values(torch.from_numpy(0.1 * gradient + 0.9 * momentum))
        expected = expected * (1 - 0.03 * 0.2) - 0.03 * max(1, shape[0] / shape[1]) ** 0.5 * ahead
        np.testing.assert_allclose(matrix.detach(), expected, atol=2e-5)
        assert torch.equal(matrix.grad, torch.from_numpy(gradient).float())  # gradients are left as they are


def test_matrices_together_move_as_each_alone_and_those_without_gradient_stay():
    shapes = [(8, 8), (8, 16), (8, 8), (16, 8)]
    together = [torch.nn.Parameter(drawn(*shape, seed=n)) for n, shape in enumerate(shapes)]
    alone = [torch.nn.Parameter(matrix.detach().clone()) for matrix in together]
    still = torch.nn.Parameter(drawn(8, 8))
    optimizers = [Muon([*together, still], lr=0.1), *(Muon([matrix], lr=0.1) for matrix in alone)]
    for step in range(2):
        for n, pair in enumerate(zip(together, alone, strict=True)):
            for matrix in pair:
                matrix.grad = drawn(*matrix.shape, seed=30 + 10 * step + n)
        for optimizer in optimizers:
            optimizer.step()
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    assert torch.equal(still, drawn(8, 8))
