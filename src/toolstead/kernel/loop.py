"""The agent loop: ask the model, run its calls, send it the results, until it is done.

Everything else is elsewhere: getting a reply (`asking`), running calls (`calling`), what may be spent
(the activation's budget). Cancelling the loop interrupts the model or the tools; the conversation stays whole.
"""

from __future__ import annotations

from toolstead.kernel.activation import Activation
from toolstead.kernel.asking import Asking
from toolstead.kernel.calling import Calling
from toolstead.kernel.conversation import Conversation
from toolstead.types.run import Answer

CUT = "[the model reached its limit of output here]"


async def converse(conversation: Conversation, activation: Activation) -> Answer:
    """Let the model answer what the conversation ends with, with tools, until it has nothing more to call.

    Raises:
        LimitError: A limit was reached before it was done.
        ModelError: The model cannot be reached, or does not take the request.
    """
    asking = Asking(activation, conversation)
    calling = Calling(activation, conversation)
    while True:
        activation.budget.begin_turn()
        conversation.take_steered()
        reply = await asking.next_reply()
        conversation.messages.append(reply)
        if reply.calls:
            await calling.carry_out(reply.calls)
        elif not conversation.steered:
            return Answer(text=f"{reply.text}\n{CUT}" if reply.cut else reply.text, usage=asking.used)
