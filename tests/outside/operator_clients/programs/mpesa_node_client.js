// Drives the simulated M-Pesa by mpesa-node, whose pay-outs are those of version 1.

const assert = require('assert')
const fs = require('fs')
const os = require('os')
const path = require('path')
const Mpesa = require('mpesa-node')

const { receiveCallbacks } = require('./callback_receiver')

const ORIGIN = process.env.OPERATOR_URL
const PASSKEY = 'bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919'
const CUSTOMER = '254708374149'

async function main () {
  const { url: plain, next } = await receiveCallbacks()
  const url = `${plain}/mpesa`
  const certificate = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'mpesa-')), 'certificate.cer')
  fs.writeFileSync(certificate, await (await fetch(`${ORIGIN}/_simulator/certificate`)).text())
  const client = new Mpesa({
    consumerKey: 'consumer-key',
    consumerSecret: 'consumer-secret',
    environment: 'sandbox',
    shortCode: '174379',
    initiatorName: 'testapi',
    lipaNaMpesaShortCode: '174379',
    lipaNaMpesaShortPass: PASSKEY,
    securityCredential: 'Safaricom999!*!',
    certPath: certificate
  })
  client.baseURL = ORIGIN

  // Its default description has 20 characters; M-Pesa documents at most 13.
  await client.lipaNaMpesaOnline(CUSTOMER, 100, `${url}/stk`, 'INV0001', 'Deposit')
  const paid = (await next()).Body.stkCallback
  assert.strictEqual(paid.ResultCode, 0)
  const receipt = paid.CallbackMetadata.Item.find((each) => each.Name === 'MpesaReceiptNumber').Value
  const asked = await client.lipaNaMpesaQuery(paid.CheckoutRequestID)
  assert.strictEqual(asked.data.ResultCode, '0')
  await client.b2c('600997', CUSTOMER, 100, `${url}/timeout`, `${url}/result`)
  assert.strictEqual((await next()).Result.ResultCode, 0)
  await client.b2b('600997', '174379', 50, `${url}/timeout`, `${url}/result`, 4, 4, 'testapi', 'BusinessPayBill', 'ACC1')
  assert.strictEqual((await next()).Result.ResultCode, '0')
  await client.transactionStatus(receipt, '174379', 4, `${url}/timeout`, `${url}/result`)
  assert.strictEqual((await next()).Result.ResultCode, 0)
  await client.accountBalance('600997', 4, `${url}/timeout`, `${url}/result`)
  assert.strictEqual((await next()).Result.ResultCode, '0')
  await client.reversal(receipt, 100, `${url}/timeout`, `${url}/result`)
  assert.strictEqual((await next()).Result.ResultCode, '0')
  await client.c2bRegister(`${plain}/confirmation`, `${plain}/validation`)
  await client.c2bSimulate(CUSTOMER, 5, 'ACC1')
  assert.strictEqual((await next()).BillRefNumber, 'ACC1')
  const book = await (await fetch(`${ORIGIN}/_simulator/book`)).json()
  const balances = Object.fromEntries(book.accounts.map((each) => [each.account, each.balance]))
  assert.deepStrictEqual(balances, { 174379: '55.00', 600997: '999850.00', [CUSTOMER]: '100095.00' })
}

main().then(() => process.exit(0), (error) => {
  console.error(error.response ? error.response.data : error)
  process.exit(1)
})
