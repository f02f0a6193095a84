"""The order of a run's rows, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trl.trainer.utils import RepeatSampler

from videopro.train.rl.seeds import mix_seed


class EpochSampler(RepeatSampler):
    """TRL's random order of rows, seeded by the seed and the epoch. TRL continues with the last epoch's
    generator, so a run resumed in a later epoch would see the rows in another order."""

    def __init__(self, like: RepeatSampler, epoch: Callable[[], int]) -> None:
        super().__init__(
            like.data_source,
            like.mini_repeat_count,
            batch_size=like.batch_size,
            repeat_count=like.repeat_count,
            shuffle=like.shuffle,
            seed=like.seed,
        )
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return self.order(self._epoch())

    def order(self, epoch: int) -> Iterator[int]:
        """The order of this epoch."""
        if self.shuffle:
            self.generator.manual_seed(mix_seed(self.seed or 0, epoch))
        return super().__iter__()
