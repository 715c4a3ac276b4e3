"""The errors that leave a group of tasks."""

import asyncio

import pytest

from agenteval.errors import HostError, UsageError, unwrapped


async def _fail(*errors: Exception) -> None:
    barrier = asyncio.Barrier(len(errors))  # the last to come does not wait: it fails first

    async def _raise(error: Exception) -> None:
        await barrier.wait()
        raise error

    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(_raise(error))


async def test_an_expected_error_leaves_a_group_of_tasks_by_itself() -> None:
    with pytest.raises(HostError, match="no disk"), unwrapped(UsageError, HostError):
        await _fail(UsageError("a wrong key"), HostError("no disk"))


async def test_an_expected_error_leaves_nested_groups_by_itself() -> None:
    with pytest.raises(UsageError, match="a wrong key"), unwrapped(UsageError):
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail(UsageError("a wrong key")))


async def test_an_unforeseen_error_beside_an_expected_one_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as raised, unwrapped(UsageError):
        await _fail(UsageError("a wrong key"), ZeroDivisionError("ours"))
    assert raised.value.subgroup(ZeroDivisionError) is not None
