// Receives the callbacks of an operator, for programs in JavaScript.

const http = require('http')

// Listens on a port of its own; gives its address, and `next`, a promise of the next callback's body.
async function receiveCallbacks () {
  const received = []
  const waiting = []
  const server = http.createServer((request, response) => {
    let body = ''
    request.on('data', (part) => { body += part })
    request.on('end', () => {
      const document = JSON.parse(body)
      if (waiting.length) waiting.shift()(document)
      else received.push(document)
      response.end('{"ResultCode": "0", "ResultDesc": "Accepted"}')
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

  return {
    url: `http://127.0.0.1:${server.address().port}`,
    next: () => received.length ? Promise.resolve(received.shift()) : new Promise((resolve) => waiting.push(resolve))
  }
}

module.exports = { receiveCallbacks }
