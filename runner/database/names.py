"""Names for teams on boards that others see, such as `quiet heron`."""

from __future__ import annotations

import secrets

_HOW = (
    "amber bold brave bright brisk calm clear clever cool copper coral crisp daring "
    "early eager fair fleet gentle glad golden green hardy humble jolly keen kind "
    "light lively lucky merry mild neat nimble noble patient plain proud quick quiet "
    "rapid ready rosy sharp silver sleek smooth spry steady sturdy sunny swift tidy "
    "vivid warm wise witty young "
)
_WHO = (
    "adder badger beaver bison bittern crane curlew deer dolphin eagle egret eland "
    "falcon ferret finch fox gannet gazelle gecko heron hare ibex ibis jackal jay "
    "kestrel kite lark lemur linnet lynx marten merlin mole newt ocelot oriole osprey "
    "otter owl panda petrel plover puffin quail raven robin seal shrew skua sparrow "
    "stoat stork swan tapir teal tern thrush toad trout vole walrus wombat wren yak "
    "zebra "
)


def shuffled(taken: set[str], count: int) -> list[str]:
    """Return so many names that are not taken, in an order that tells nothing."""
    pairs = (f"{how} {who}" for how in _HOW.split() for who in _WHO.split())
    every = [name for name in pairs if name not in taken]
    every += [f"team {n}" for n in range(1, count - len(every) + 1)]
    return secrets.SystemRandom().sample(every, count)
