"""fedmrn.torch: Algorithm 1 as an optimizer, and what surrounds it."""

import copy
import io
import itertools
import unittest

import fedmrn
import fedmrn.torch
import numpy as np
import torch
from fedmrn import FrameError, _core, _masking
from fedmrn.torch import MaskedSGD, Update, broadcast, load_broadcast
from torch import nn

torch.set_num_threads(1)


def make_model(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.Flatten(), nn.Linear(4 * 36, 10))


def batches(count, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(16, 1, 8, 8, generator=generator),
             torch.randint(10, (16,), generator=generator))
            for _ in range(count)]


def train(model, opt, data, scheduler=None, set_to_none=True):
    for x, y in data:
        opt.zero_grad(set_to_none=set_to_none)
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        if scheduler is not None:
            scheduler.step()


def coded(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()
                      if p.dim() > 1])


class KernelsTest(unittest.TestCase):
    """Torch operations give what the C++ kernels give, to the bit."""

    def test_noise(self):
        for kind in "uniform", "gaussian", "bernoulli":
            for seed in 0, 7, 2**64 - 1, 0xFEDCBA9876543210:
                for count in 1, 127, 1000, (1 << 20) + 300:
                    if count > 1000 and seed != 7:
                        continue
                    np.testing.assert_array_equal(
                        _masking.noise(kind, 0.01, seed, count, "cpu").numpy(),
                        fedmrn.noise(kind, 0.01, seed, count))

    def test_masked_step(self):
        count = (1 << 20) + 77  # two chunks
        generator = torch.Generator().manual_seed(1)
        w = torch.randn(count, generator=generator)
        u = 0.01 * torch.randn(count, generator=generator)
        u[::7], u[3::11], w[::5] = 0.0, -0.0, -0.0
        for mask, kind, stochastic, progressive, step in itertools.product(
                ("binary", "signed"), ("uniform", "gaussian", "bernoulli"),
                (True, False), (True, False), (1, 2, 3)):
            size = count if step == 2 and kind == "uniform" else 3001
            by_kernel, by_torch = torch.empty(size), torch.empty(size)
            seed, draws = 2**63 + 12345, 2**64 - 9
            tensors = [(1000, 0.02), (size - 1000, 0.005)] if step == 3 else []
            _core.masked_step(
                w[:size], None, u[:size].clone(), by_kernel, mask=mask,
                noise=kind, magnitude=0.0 if tensors else 0.01,
                magnitudes=tensors, seed=seed, draw_seed=draws,
                step=step, total_steps=3, learning_rate=0.0,
                stochastic=stochastic, progressive=progressive)
            _masking.masked_step(
                w[:size], u[:size], by_torch,
                _masking.noise(kind, tensors or 0.01, seed, size, "cpu"),
                mask=mask,
                draw_seed=draws, step=step, total_steps=3,
                stochastic=stochastic, progressive=progressive)
            self.assertEqual(by_kernel.numpy().tobytes(),
                             by_torch.numpy().tobytes(),
                             (mask, kind, stochastic, progressive, step))

    def test_tensors_in_place(self):
        """Parameters, too, are read where they are."""
        values = nn.Parameter(torch.ones(5))
        self.assertEqual(
            fedmrn.encode(values, codec="float32", examples=1),
            fedmrn.encode(np.ones(5, np.float32), codec="float32", examples=1))
        out = torch.empty(5)
        fedmrn.noise("uniform", 0.01, 1, out=out)
        np.testing.assert_array_equal(out.numpy(),
                                      fedmrn.noise("uniform", 0.01, 1, 5))
        frame = fedmrn.encode(values.detach(), codec="float32", examples=1)
        self.assertIs(fedmrn.decode(frame, out=out), out)
        self.assertEqual(out.tolist(), [1.0] * 5)
        for bad, message in [
                (torch.ones(5, dtype=torch.float64), "update: has dtype "
                 "float64"), (torch.ones(5).half(), "float16"),
                (torch.ones(10)[::2], "update: is not contiguous"),
                (torch.ones(5, 1), "update: has 2 dimensions")]:
            with self.assertRaisesRegex(TypeError, message):
                fedmrn.encode(bad, codec="float32", examples=1)


class MaskedSGDTest(unittest.TestCase):
    def test_is_algorithm_1(self):
        """Step by step, from the definition: gradients at w + u_hat, SGD on u,
        PSM by the core, the final mask of what is left."""
        for mask, momentum, decay in itertools.product(
                ("binary", "signed"), (0.0, 0.9), (0.0, 0.01)):
            model, twin = make_model(), make_model()
            data = batches(4)
            opt = MaskedSGD(model, 0.1, 4, 77, mask, momentum=momentum,
                            weight_decay=decay, draw_seed=78)
            train(model, opt, data)
            frame = opt.frame(examples=64)

            w = coded(twin)
            u, velocity = torch.zeros_like(w), torch.zeros_like(w)
            plain_opt = torch.optim.SGD(
                [p for p in twin.parameters() if p.dim() == 1], 0.1,
                momentum=momentum, weight_decay=decay)
            for step, (x, y) in enumerate(data, 1):
                effective = torch.empty_like(w)
                _core.masked_step(
                    w, None, u, effective, mask=mask, noise="uniform",
                    magnitude=0.01 if mask == "binary" else 0.005, seed=77,
                    draw_seed=78, step=step, total_steps=4, learning_rate=0.0,
                    stochastic=True, progressive=True)
                fedmrn.torch._Model(twin).set_coded(effective)
                twin.zero_grad()
                nn.functional.cross_entropy(twin(x), y).backward()
                g = torch.cat([p.grad.flatten() for p in twin.parameters()
                               if p.dim() > 1])
                g = g + decay * u
                velocity = g if step == 1 else momentum * velocity + g
                u = u - 0.1 * (velocity if momentum else g)
                plain_opt.step()
            torch.testing.assert_close(opt.update, u, rtol=1e-4, atol=1e-7)
            expected = fedmrn.encode(
                opt.update, fedmrn.torch._Model(model).plain_values(),
                codec="mrn-" + mask, layout=opt.layout, examples=64,
                noise="uniform", magnitude=0.01 if mask == "binary" else 0.005,
                seed=77)
            self.assertEqual(frame, expected)
            torch.testing.assert_close(
                torch.from_numpy(fedmrn.parse(frame).plain()),
                fedmrn.torch._Model(twin).plain_values(), rtol=1e-4, atol=1e-6)
            # The model has what the server will see of this client.
            np.testing.assert_array_equal(
                coded(model).numpy(), w.numpy() + fedmrn.decode(frame))

    def test_same_bits_without_the_kernels(self):
        for mask, noise in itertools.product(
                ("binary", "signed"), ("uniform", "gaussian", "bernoulli")):
            frames, steps = [], []
            for kernel in "auto", "torch":
                model = make_model()
                opt = MaskedSGD(model, 0.1, 3, 2**64 - 5, mask, noise,
                                momentum=0.9, kernel=kernel)
                seen = []
                for batch in batches(3):
                    train(model, opt, [batch])
                    seen.append(coded(model).numpy().tobytes())
                steps.append(seen)
                frames.append(opt.frame(examples=48))
            self.assertEqual(steps[0], steps[1])
            self.assertEqual(frames[0], frames[1])

    def test_learns(self):
        torch.manual_seed(3)
        x = torch.randn(256, 20)
        y = (x @ torch.randn(20, 3)).argmax(1)
        for mask in "binary", "signed":
            model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(),
                                  nn.Linear(64, 3))
            loss = nn.functional.cross_entropy
            before = loss(model(x), y).item()
            for round in range(5):
                opt = MaskedSGD(model, 0.3, 30, round, mask, magnitude=0.1)
                for _ in range(30):
                    opt.zero_grad()
                    loss(model(x), y).backward()
                    opt.step()
                opt.frame(examples=256)  # leaves the new model
            self.assertLess(loss(model(x), y).item(), 0.5 * before)

    def test_zero_grad_either_way(self):
        frames = []
        for set_to_none in True, False:
            model = make_model()
            opt = MaskedSGD(model, 0.1, 3, 1)
            train(model, opt, batches(3), set_to_none=set_to_none)
            frames.append(opt.frame(examples=48))
        self.assertEqual(*frames)

    def test_a_closure(self):
        model, twin = make_model(), make_model()
        x, y = batches(1)[0]
        opt, other = MaskedSGD(model, 0.1, 1, 1), MaskedSGD(twin, 0.1, 1, 1)

        def closure():
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        self.assertGreater(opt.step(closure).item(), 0)
        train(twin, other, [(x, y)])
        self.assertEqual(opt.frame(examples=16), other.frame(examples=16))

    def test_lr_scheduler(self):
        rates = []
        model = make_model()
        opt = MaskedSGD(model, 0.4, 3, 1)
        scheduler = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
        w = opt.update
        for batch in batches(3):
            rates.append(opt.param_groups[0]["lr"])
            opt.zero_grad()
            nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
            g = torch.cat([p.grad.flatten() for p in model.parameters()
                           if p.dim() > 1])
            opt.step()
            w = w - rates[-1] * g
            self.assertTrue(torch.equal(opt.update, w))
            scheduler.step()
        self.assertEqual(rates, [0.4, 0.2, 0.1])

    def test_parameter_groups(self):
        model, same = make_model(), make_model()
        def groups(of, lr):
            return [{"params": list(of[0].parameters()), "lr": lr},
                    {"params": list(of[1].parameters())
                     + list(of[4].parameters())}]
        opt = MaskedSGD(model, 0.1, 2, 1, groups=groups(model, 0.0))
        train(model, opt, batches(2))
        conv = model[0].weight.numel()
        self.assertTrue((opt.update[:conv] == 0).all())
        self.assertTrue((opt.update[conv:] != 0).any())
        # Equal groups are as good as none.
        opt = MaskedSGD(same, 0.1, 2, 1, groups=groups(same, 0.1))
        train(same, opt, batches(2))
        alone = make_model()
        reference = MaskedSGD(alone, 0.1, 2, 1)
        train(alone, reference, batches(2))
        self.assertEqual(opt.frame(examples=1), reference.frame(examples=1))
        with self.assertRaisesRegex(ValueError, "every trained parameter"):
            MaskedSGD(model, 0.1, 2, 1,
                      groups=[{"params": model[0].parameters()}])
        with self.assertRaisesRegex(RuntimeError, "groups are given"):
            reference.add_param_group({"params": [torch.zeros(2, 2)]})

    def test_an_interrupted_client_goes_on(self):
        for kernel, mask in itertools.product(("auto", "torch"),
                                              ("binary", "signed")):
            settings = dict(lr=0.1, total_steps=5, seed=3, mask=mask,
                            momentum=0.9, kernel=kernel)
            model = make_model()
            whole = MaskedSGD(model, **settings)
            train(model, whole, batches(5))
            expected = whole.frame(examples=80, plain_as="delta")
            for stop in range(6):
                model = make_model()
                opt = MaskedSGD(model, **settings)
                train(model, opt, batches(5)[:stop])
                file = io.BytesIO()
                torch.save((model.state_dict(), opt.state_dict()), file)
                file.seek(0)
                model_state, opt_state = torch.load(file)
                other = make_model(seed=99)
                again = MaskedSGD(other, **settings)
                other.load_state_dict(model_state)
                again.load_state_dict(opt_state)
                self.assertEqual(again.steps_done, stop)
                train(other, again, batches(5)[stop:])
                self.assertEqual(again.frame(examples=80, plain_as="delta"),
                                 expected)

    def test_state_of_another(self):
        opt = MaskedSGD(make_model(), 0.1, 2, 1)
        other = MaskedSGD(make_model(), 0.1, 2, 8)
        with self.assertRaisesRegex(ValueError, "another seed: 8, not 1"):
            opt.load_state_dict(other.state_dict())
        sgd = torch.optim.SGD(make_model().parameters(), 0.1)
        with self.assertRaisesRegex(ValueError, "another kind of optimizer"):
            opt.load_state_dict(sgd.state_dict())

    def test_frozen_parameters_stay(self):
        model = make_model()
        model[0].weight.requires_grad_(False)
        before = model[0].weight.clone()
        opt = MaskedSGD(model, 0.1, 2, 1, "signed")
        train(model, opt, batches(2))
        opt.frame(examples=1)
        self.assertTrue(torch.equal(model[0].weight, before))
        self.assertEqual(opt.layout.params, 1440)

    def test_a_parameter_without_a_gradient(self):
        model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        opt = MaskedSGD(model, 0.1, 1, 1)
        model[0](torch.ones(1, 3)).sum().backward()
        opt.step()
        self.assertTrue((opt.update[9:] == 0).all())
        self.assertTrue((opt.update[:9] != 0).all())

    def test_channels_last(self):
        frames = []
        for memory_format in torch.contiguous_format, torch.channels_last:
            model = nn.Conv2d(3, 4, 3)
            with torch.no_grad():
                model.weight.copy_(
                    torch.arange(108.).view(4, 3, 3, 3) / 1000)
                model.bias.zero_()
            model = model.to(memory_format=memory_format)
            opt = MaskedSGD(model, 0.1, 1, 1)
            model.weight.grad = torch.arange(108.).view(4, 3, 3, 3).contiguous(
                memory_format=memory_format) / 1000
            opt.step()
            frames.append(opt.frame(examples=1))
        self.assertEqual(*frames)

    # Bad input: a clear exception each, and nothing is lost.

    def test_no_coded_parameters(self):
        with self.assertRaisesRegex(ValueError, "would be compressed"):
            MaskedSGD(nn.BatchNorm1d(4), 0.1, 1, 1)
        with self.assertRaisesRegex(ValueError, "no parameter that is trained"):
            MaskedSGD(nn.ReLU(), 0.1, 1, 1)
        with self.assertRaisesRegex(TypeError, "must be a torch.nn.Module"):
            MaskedSGD(make_model().parameters(), 0.1, 1, 1)

    def test_bad_settings(self):
        model = make_model()
        for settings in (dict(mask="ternary"), dict(noise="pink"),
                         dict(magnitude=0.0), dict(magnitude=float("nan")),
                         dict(magnitude=[(5, 0.01)]),
                         dict(total_steps=0), dict(seed=-1), dict(seed=2**64),
                         dict(lr=-1.0), dict(lr=float("nan")),
                         dict(momentum=-0.5), dict(kernel="cuda"),
                         dict(coded="nothing*")):
            with self.assertRaises(ValueError, msg=settings):
                MaskedSGD(model, **{**dict(lr=0.1, total_steps=1, seed=1),
                                    **settings})
        with self.assertRaises(TypeError):
            MaskedSGD(model, 0.1, 1.5, 1)
        with self.assertRaisesRegex(TypeError, "0.weight has dtype "
                                    "torch.float64"):
            MaskedSGD(make_model().double(), 0.1, 1, 1)

    def test_too_many_steps(self):
        model = make_model()
        opt = MaskedSGD(model, 0.1, 2, 1)
        train(model, opt, batches(2))
        before = opt.update
        with self.assertRaisesRegex(RuntimeError, "all 2 steps are done"):
            train(model, opt, batches(1))
        self.assertTrue(torch.equal(opt.update, before))
        opt.frame(examples=1)

    def test_too_few_steps(self):
        model = make_model()
        opt = MaskedSGD(model, 0.1, 3, 1)
        train(model, opt, batches(2))
        with self.assertRaisesRegex(RuntimeError, "2 of 3 steps are done"):
            opt.frame(examples=1)
        fedmrn.parse(opt.frame(examples=1, early=True))

    def test_one_frame(self):
        model = make_model()
        opt = MaskedSGD(model, 0.1, 1, 1)
        train(model, opt, batches(1))
        with self.assertRaises(FrameError):  # no example; it may be mended
            opt.frame(examples=0)
        opt.frame(examples=1)
        with self.assertRaisesRegex(RuntimeError, "answers a round once"):
            opt.frame(examples=1)
        with self.assertRaisesRegex(RuntimeError, "a new MaskedSGD"):
            opt.step()

    def test_gradients_that_are_not_finite(self):
        for kernel, index, bad in itertools.product(
                ("auto", "torch"), (0, 1), (float("nan"), float("inf"))):
            model, twin = make_model(), make_model()
            opt = MaskedSGD(model, 0.1, 2, 1, kernel=kernel)
            same = MaskedSGD(twin, 0.1, 2, 1, kernel=kernel)
            for of, optimizer in (model, opt), (twin, same):
                train(of, optimizer, batches(1))
            state = copy.deepcopy(model.state_dict())
            list(model.parameters())[index].grad.view(-1)[1] = bad
            name = ("0.weight", "0.bias")[index]
            with self.assertRaisesRegex(
                    FloatingPointError,
                    f"gradient of {name} is not finite in step 2"):
                opt.step()
            for key, value in model.state_dict().items():
                self.assertTrue(torch.equal(value, state[key]), key)
            for of, optimizer in (model, opt), (twin, same):
                train(of, optimizer, batches(1, seed=6))
            self.assertEqual(opt.frame(examples=1), same.frame(examples=1))

    def test_huge_gradients_are_finite(self):
        model = nn.Linear(2, 2, bias=False)
        opt = MaskedSGD(model, 1e-30, 1, 1)
        model.weight.grad = torch.full((2, 2), 3e38)
        opt.step()
        self.assertTrue(torch.isfinite(opt.update).all())


class RoundTest(unittest.TestCase):
    """Server and clients, by frames alone."""

    def test_layout_is_that_of_torchscript(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(4, 4)
                self.register_buffer("offset", torch.zeros(2, 2))
                self.register_buffer("counter", torch.zeros(1).long())
                self.norm = nn.BatchNorm1d(4)
                self.tail = nn.Linear(4, 4)
                self.tail.weight = self.head.weight
                self.scale = nn.Parameter(torch.ones(()))
                self.frozen = nn.Parameter(torch.ones(3, 3), False)

        self.assertEqual(fedmrn.torch.layout(Tied()).tensors, [
            ("scale", (), False), ("head.weight", (4, 4), True),
            ("head.bias", (4,), False), ("norm.weight", (4,), False),
            ("norm.bias", (4,), False), ("tail.bias", (4,), False),
            ("offset", (2, 2), False), ("norm.running_mean", (4,), False),
            ("norm.running_var", (4,), False)])

    def test_patterns(self):
        model = make_model()
        names = [name for name, _, is_coded in
                 fedmrn.torch.layout(model, coded="*.weight, !4*").tensors
                 if is_coded]
        self.assertEqual(names, ["0.weight", "1.weight"])
        names = [name for name, _, is_coded in
                 fedmrn.torch.layout(model, coded="!4*").tensors if is_coded]
        self.assertEqual(names, ["0.weight"])
        with self.assertRaisesRegex(ValueError, "a name like 'conv\\*'"):
            fedmrn.torch.layout(model, coded="conv*")

    def test_a_round(self):
        for mask, kernel, steered in (("binary", "auto", False),
                                      ("signed", "auto", False),
                                      ("binary", "auto", True),
                                      ("signed", "torch", True)):
            server = make_model()
            magnitudes = [
                (length, 0.5 ** (t + 4)) for t, length in
                enumerate(fedmrn.torch.layout(server).segments)] if steered else []
            down = broadcast(server, run=5, round=2, magnitudes=magnitudes)
            aggregator = fedmrn.torch.aggregator(
                server, down, codec="mrn-" + mask, noise="uniform",
                run_seed=11, **({} if steered else dict(magnitude=0.01)))
            frames = []
            for client in range(3):
                model = make_model(seed=50 + client)
                header = load_broadcast(model, down)
                noise_seed, draw_seed = fedmrn.client_seeds(11, header.round,
                                                            client)
                self.assertEqual(header.magnitudes, magnitudes)
                opt = MaskedSGD(model, 0.1, 2, noise_seed, mask,
                                magnitude=header.magnitudes or 0.01,
                                draw_seed=draw_seed, kernel=kernel)
                train(model, opt, batches(2, seed=client))
                frames.append(opt.frame(32, run=header.run, round=header.round,
                                        client=client))
            self.assertEqual(aggregator.add_all(frames[::-1]), [None] * 3)
            w = coded(server).double().numpy()
            fedmrn.torch.finish(aggregator, server)
            mean = np.mean([fedmrn.decode(f) for f in frames], axis=0,
                           dtype=np.float64)
            np.testing.assert_allclose(coded(server).numpy(), w + mean,
                                       rtol=1e-6, atol=1e-8)
            after = aggregator.next_magnitudes()
            self.assertEqual([n for n, _ in after], [n for n, _ in magnitudes])
            self.assertTrue(not steered or after != magnitudes)
            plain = np.mean([fedmrn.parse(f).plain() for f in frames], axis=0)
            np.testing.assert_allclose(
                fedmrn.torch._Model(server).plain_values().numpy(), plain,
                rtol=1e-5, atol=1e-7)

    def test_a_foreign_client(self):
        server = fedmrn.Aggregator(
            fedmrn.torch.layout(make_model()), codec="mrn-binary",
            noise="uniform", magnitude=0.01)
        model = nn.Linear(4, 4)
        opt = MaskedSGD(model, 0.1, 1, 1)
        model(torch.ones(1, 4)).sum().backward()
        opt.step()
        with self.assertRaises(FrameError) as caught:
            server.add(opt.frame(examples=1))
        self.assertEqual(caught.exception.code, "foreign")
        with self.assertRaises(FrameError):
            fedmrn.torch.finish(server, model)

    def test_broadcasts(self):
        model = make_model()
        for half in False, True:
            other = make_model(seed=2)
            parsed = load_broadcast(other, broadcast(model, run=3, round=9,
                                                     half=half))
            self.assertEqual((parsed.run, parsed.round), (3, 9))
            for a, b in zip(model.state_dict().values(),
                            other.state_dict().values()):
                self.assertTrue(torch.equal(
                    a.half().float() if half and a.is_floating_point() else a,
                    b))

    def test_broadcasts_of_another_model(self):
        model = make_model()
        state = copy.deepcopy(model.state_dict())
        wider = nn.Linear(4 * 36, 12)
        renamed = nn.Sequential(*make_model(), nn.ReLU())
        renamed = nn.ModuleDict({"net": renamed})
        update = Update(model).frame(examples=1, codec="float32")
        for frame in broadcast(wider), broadcast(renamed), update:
            with self.assertRaises(FrameError) as caught:
                load_broadcast(model, frame)
            self.assertEqual(caught.exception.code, "foreign")
        with self.assertRaises(FrameError):
            load_broadcast(model, broadcast(model)[:-9])
        for key, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, state[key]))

    def test_updates_of_every_codec(self):
        for codec in fedmrn.codecs():
            if codec.encodes_probabilities:
                continue
            model = make_model()
            before = Update(model)
            opt = torch.optim.Adam(model.parameters(), 0.001)
            w = coded(model)
            train(model, opt, batches(2))
            settings = {}
            if codec.uses_noise:
                settings.update(noise="uniform", magnitude=0.01)
            if codec.uses_seed:
                settings.update(seed=4)
            frame = before.frame(examples=32, codec=codec.name, draw_seed=2,
                                 **settings)
            update = (coded(model) - w).numpy()
            decoded = fedmrn.decode(frame)
            self.assertEqual(len(decoded), len(update))
            self.assertGreater(np.dot(decoded, update), 0, codec.name)
            if codec.name == "float32":
                np.testing.assert_array_equal(decoded, update)


if __name__ == "__main__":
    unittest.main()
