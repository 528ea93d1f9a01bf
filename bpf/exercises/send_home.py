# SPDX-License-Identifier: BSD-3-Clause
def send_home(sockets):
    """Return every datagram that waits, as a list of bytes, and leave no page behind.

    Something is missing: this takes one datagram of the first socket.
    """
    return [sockets[0].recv(65536)]
